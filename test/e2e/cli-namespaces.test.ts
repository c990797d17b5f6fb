import { beforeEach, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

const make = (namespace: string, ...flags: string[]): Promise<string> =>
  sandbox.read(["init", "--registry", sandbox.registry, "--namespace", namespace, ...flags]);
const list = (...flags: string[]) => sandbox.run(["namespaces", "--registry", sandbox.registry, ...flags]);

test("the namespaces of a registry, with layout, longest window and quarantine", async () => {
  const absent = await list();
  expect(absent).toMatchObject({ code: 2, stdout: "" });
  expect(absent.stderr).toMatch(/^snowlease: NOT_FOUND: The registry \S+ does not exist yet/);
  await make("stock", "--layout", "timestamp:41,worker:10,sequence:12@1600000000000", "--max-window", "5m");
  await make("orders");
  // Its quarantine lasts longer than the commands take.
  await make("billing", "--layout", "twitter", "--max-window", "10m");
  const dropped = await sandbox.read(["drop", "billing", "--registry", sandbox.registry]);
  const [, until = ""] = /before (\S+Z)\./.exec(dropped) ?? [];
  expect((await list()).stdout).not.toContain("billing");
  await make("billing", "--layout", "twitter", "--max-window", "10m");

  expect(await list()).toEqual({
    code: 0,
    stderr: "",
    stdout: [
      "NAMESPACE  LAYOUT                                              LONGEST WINDOW  QUARANTINE",
      `billing    twitter                                             600000 ms       ${until}`,
      "orders     westid                                              120000 ms       -",
      "stock      timestamp:41,worker:10,sequence:12@1600000000000/1  300000 ms       -",
      "",
    ].join("\n"),
  });
  const json = JSON.parse((await list("--json")).stdout) as unknown;
  const id = expect.stringMatching(/^[\da-f]{32}$/);
  expect(json).toMatchObject([
    { namespace: "billing", id, quarantineUntil: Date.parse(until) },
    { namespace: "orders", id, layout: defaultLayout.fingerprint, maxWindow: 120_000, maxClockSkew: 10_000 },
    { namespace: "stock", id, maxWindow: 300_000 },
  ]);
});

test("a registry without a namespace says so", async () => {
  await make("orders", "--max-window", "1s", "--max-clock-skew", "1s");
  await sandbox.read(["drop", "orders", "--registry", sandbox.registry]);
  expect((await list()).stdout).toBe("No namespace.\n");
  expect((await list("--json")).stdout).toBe("[]\n");
});

test("a daemon lists the namespaces that a token is for", async () => {
  for (const namespace of ["billing", "orders", "orders_eu"]) await make(namespace);
  const tokens = sandbox.tokens("reader read orders*", "worker worker");
  const { url } = await sandbox.serve("--tokens", tokens);
  const ask = (token: string) =>
    sandbox.run(["namespaces", "--registry", url, "--json"], { env: { SNOWLEASE_TOKEN: token } });
  const { stdout } = await ask("reader");
  const found = JSON.parse(stdout) as { namespace: string }[];
  expect(found.map(({ namespace }) => namespace)).toEqual(["orders", "orders_eu"]);
  expect(await ask("worker")).toMatchObject({ code: 8, stdout: "" });
});
