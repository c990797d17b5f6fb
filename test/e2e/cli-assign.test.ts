import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { Sandbox, until } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

async function workers(): Promise<unknown> {
  return JSON.parse(await sandbox.read(["workers", "--registry", sandbox.registry, "--json"]));
}

describe("assign", () => {
  test("prints its lease, holds it until stdin closes, gives it back", async () => {
    const holder = sandbox.start(["assign", "--registry", sandbox.registry]);
    const lease = JSON.parse(await holder.line()) as Record<string, number>;
    expect(lease).toMatchObject({ workerId: 0, fence: 1, namespace: "default", fields: { worker: 0 } });
    expect(lease["until"]).toBeGreaterThan(Date.now());
    expect(await workers()).toMatchObject([{ state: "live" }]);
    holder.closeStdin();
    expect(await holder.ended).toMatchObject({ code: 0, stderr: "" });
    // Others made the IDs, so nobody can say which: the window rests.
    expect(await workers()).toMatchObject([{ state: "resting", clean: false, until: lease["until"] }]);
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("gives back at %s", async (signal) => {
    const holder = sandbox.start(["assign", "--registry", sandbox.registry]);
    await holder.line();
    holder.signal(signal);
    expect(await holder.ended).toMatchObject({ code: 0, stderr: "" });
    expect(await workers()).toMatchObject([{ state: "resting" }]);
  });

  test("ends with 4 when the lease is lost", async () => {
    const holder = sandbox.start(["assign", "--registry", sandbox.registry, "--window", "6s"]);
    await holder.line();
    await sandbox.read(["release", "--registry", sandbox.registry, "0", "--force"]);
    expect(await holder.ended).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^snowlease: LEASE_LOST: .*\n$/) as string,
    });
  });

  test("ends with 4 before a window ends that cannot be renewed", async () => {
    const { daemon, url } = await sandbox.serve();
    const holder = sandbox.start(["assign", "--registry", url, "--window", "1s"]);
    await holder.line();
    await daemon.kill();
    expect(await holder.ended).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^snowlease: LEASE_EXPIRED: .*\n$/) as string,
    });
  });

  test("--once gives back at once, and warns", async () => {
    const result = await sandbox.run(["assign", "--registry", sandbox.registry, "--once"]);
    expect(result).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^snowlease: Released .* do not make IDs/) as string,
    });
    expect(await workers()).toMatchObject([{ state: "resting" }]);
  });

  test("gives back, as never used, what nobody reads", async () => {
    const holder = sandbox.start(["assign", "--registry", sandbox.registry]);
    holder.closeStdout();
    expect(await holder.ended).toMatchObject({ code: 0, stderr: "" });
    expect(await workers()).toMatchObject([{ state: "free", clean: true }]);
  });

  test("gives back when its output cannot be written, and says so once", async () => {
    const cli = join(import.meta.dirname, "../../dist/cli/main.js");
    const line = `exec "${process.execPath}" "${cli}" assign --registry "${sandbox.registry}" > /dev/full`;
    const holder = sandbox.started(spawn("sh", ["-c", line], sandbox.surroundings()));
    const result = await holder.ended;
    expect(result).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^snowlease: CONFIG_INVALID: [^\n]*ENOSPC[^\n]*\n$/) as string,
    });
    expect(await workers()).toMatchObject([{ state: "resting" }]);
  });

  test("a second one for the same worker ID is told who holds it", async () => {
    const args = ["assign", "--registry", sandbox.registry, "--worker-id", "7"];
    const holder = sandbox.start([...args, "--host", "alpha"]);
    await holder.line();
    const second = await sandbox.run([...args, "--claim-timeout", "0"]);
    expect(second).toMatchObject({ code: 3, stdout: "" });
    expect(second.stderr).toMatch(new RegExp(`^snowlease: WORKER_ID_HELD: .*alpha .*pid ${holder.pid}`));
  });

  test("hides a password in the registry's URL from other users of the host", async () => {
    const args = ["assign", "--registry", "http://me:s3cret@127.0.0.1:9", "--operation-timeout", "30s"];
    const holder = sandbox.start(args);
    await until(() => readFileSync(`/proc/${holder.pid}/cmdline`, "latin1").startsWith("snowlease assign"));
    expect(readFileSync(`/proc/${holder.pid}/cmdline`, "latin1")).not.toContain("s3cret");
  });
});
