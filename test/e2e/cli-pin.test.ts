import { beforeEach, expect, test } from "vitest";
import { Sandbox } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(async () => {
  sandbox = new Sandbox();
  await sandbox.read(["init", "--registry", sandbox.registry]);
});

const on = (...args: string[]): string[] => [...args, "--registry", sandbox.registry];

async function pinned(): Promise<Record<number, string>> {
  const text = await sandbox.read(on("workers", "--state", "pinned", "--json"));
  const found = JSON.parse(text) as { workerId: number; pinned: string }[];
  return Object.fromEntries(found.map(({ workerId, pinned }) => [workerId, pinned]));
}

test("pin keeps worker IDs from later claims, unpin gives them back", async () => {
  expect(await sandbox.read(on("pin", "0", "1", "0", "--reason", "the old host"))).toBe(
    "Pinned in namespace default: 0, 1.\n",
  );
  expect(await pinned()).toEqual({ 0: "the old host", 1: "the old host" });
  // They were never held: they have no window to report.
  expect(await sandbox.read(on("workers"))).toMatch(/^ +0 {2}pinned \(the old host\) +- +0$/m);
  expect(JSON.parse(await sandbox.read(on("workers", "--json")))).toMatchObject([
    { from: null, until: null },
    { from: null, until: null },
  ]);
  const [id = ""] = JSON.parse(await sandbox.read(on("id", "-n", "1", "--json"))) as string[];
  expect(JSON.parse(await sandbox.read(["inspect", "--json", id]))).toMatchObject([{ workerId: 2 }]);
  const refused = await sandbox.run(on("id", "-n", "1", "--worker-id", "0"));
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining("the old host") as string });

  expect(JSON.parse(await sandbox.read(on("unpin", "0", "--json")))).toEqual({ namespace: "default", workerIds: [0] });
  expect(await pinned()).toEqual({ 1: "the old host" });
  expect(await sandbox.read(on("id", "-n", "1", "--worker-id", "0"))).toMatch(/^\d+\n$/);
});

test("a holder goes on when its worker ID is pinned", async () => {
  const holder = sandbox.start(on("exec", "--window", "1s", "--", "sh", "-c", "echo ready; read line; echo done"));
  await holder.line();
  expect(JSON.parse(await sandbox.read(on("pin", "0", "--reason", "moves soon", "--json")))).toEqual({
    namespace: "default",
    workerIds: [0],
    reason: "moves soon",
  });
  holder.closeStdin("\n");
  expect(await holder.ended).toMatchObject({ code: 0, stdout: "ready\ndone\n" });
  expect(await pinned()).toEqual({ 0: "moves soon" });
});

test("an impossible pin is refused in one line, and nothing is changed", async () => {
  await sandbox.read(on("pin", "5", "--reason", "reserved"));
  for (const [args, code, message] of [
    [["pin", "6", "1024", "--reason", "reserved"], 2, /CONFIG_INVALID: .*from 0 to 1023/],
    [["pin", "6", "--reason", ""], 2, /CONFIG_INVALID: .*`reason` to be 1 to 200 characters/],
    [["unpin", "6"], 2, /NOT_FOUND: Not pinned in namespace `default`: 6; see/],
    [["pin", "6", "--reason", "reserved", "--namespace", "other"], 2, /NOT_FOUND: .*no namespace `other`/],
  ] as const) {
    const result = await sandbox.run(on(...args));
    expect(result).toMatchObject({
      code,
      stdout: "",
      stderr: expect.stringMatching(/^snowlease: [^\n]+\n$/) as string,
    });
    expect(result.stderr).toMatch(message);
  }
  expect(await pinned()).toEqual({ 5: "reserved" });
});
