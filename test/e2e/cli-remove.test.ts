import { beforeEach, describe, expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";

let sandbox: Sandbox;
let registry: string;
let era: string;
beforeEach(async () => {
  sandbox = new Sandbox();
  registry = sandbox.registry;
  await sandbox.read(["init", "--registry", registry, "trial", "orders"]);
  await sandbox.read(["id", "-n", "3", "--registry", registry, "--namespace", "trial"]);
  era = await eraOf("trial");
});

async function eraOf(namespace: string): Promise<string> {
  const look = await sandbox.read(["quarantine", namespace, "--json", "--registry", registry]);
  const [report] = JSON.parse(look) as { era: string }[];
  return report?.era ?? "";
}

const remove = (...args: string[]): string[] => ["remove", "--registry", registry, "--namespace", "trial", ...args];

test("a namespace is removed, and one of its name begins in quarantine", async () => {
  const text = await sandbox.read(remove("--era", era, "--i-know"));
  expect(text).toBe(
    `Namespace \`trial\` is removed from ${registry}. A note of its name is left: a namespace that is made again begins in quarantine.\n`,
  );
  const gone = await sandbox.run(["workers", "--namespace", "trial", "--registry", registry]);
  expect(gone).toMatchObject({ code: 2, stderr: expect.stringContaining("NOT_FOUND") as string });
  expect(await eraOf("orders")).toMatch(/^\d/);
  await sandbox.read(["init", "--registry", registry, "trial"]);
  const refused = await sandbox.run(["id", "--registry", registry, "--namespace", "trial", "--claim-timeout", "0"]);
  expect(refused).toMatchObject({ code: 5, stderr: expect.stringContaining("QUARANTINE") as string });
  const forgotten = await sandbox.read(remove("--era", await eraOf("trial"), "--forget", "--i-know", "--json"));
  expect(JSON.parse(forgotten)).toMatchObject({ namespace: "trial", forget: true });
  await sandbox.read(["init", "--registry", registry, "trial", "--new"]);
  await sandbox.read(["id", "--registry", registry, "--namespace", "trial"]);
});

test("it goes through a daemon", async () => {
  const { url } = await sandbox.serve();
  await sandbox.read(["remove", "--registry", url, "--namespace", "trial", "--era", era, "--i-know"]);
  expect((await sandbox.run(["workers", "--namespace", "trial", "--registry", url])).code).toBe(2);
});

describe("nothing is removed", () => {
  test.each<[string, (era: string) => string[], number, RegExp]>([
    [
      "without the operator's word",
      (present) => ["--era", present],
      2,
      /`--i-know`, got nothing\. It is your word .*registry\.db/,
    ],
    ["without an era", () => ["--i-know"], 2, /`--era ERA`, got nothing/],
    ["with another era", (present) => ["--era", `${present}0`, "--i-know"], 2, /nothing was changed/],
    ["with an operand", (present) => ["now", "--era", present, "--i-know"], 2, /CONFIG_INVALID/],
  ])("%s", async (_, args, code, message) => {
    const result = await sandbox.run(remove(...args(era)));
    expect(result).toMatchObject({ code, stdout: "" });
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^snowlease: [^\n]+\n$/);
    expect(await eraOf("trial")).toBe(era);
  });

  test("while a holder has a worker ID of it", async () => {
    const holder = sandbox.start([
      "exec",
      "--registry",
      registry,
      "--namespace",
      "trial",
      "--",
      "sh",
      "-c",
      "echo ready; exec sleep 600",
    ]);
    await holder.line();
    const result = await sandbox.run(remove("--era", era, "--i-know"));
    expect(result).toMatchObject({ code: 3, stdout: "" });
    expect(result.stderr).toMatch(
      /is in use: a holder has a worker ID of namespace `trial`.*; nothing was changed\. Stop each process/,
    );
    holder.signal("SIGTERM");
    await holder.ended;
  });
});
