import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { afterEach, expect, test } from "vitest";

const children: ChildProcess[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

const dist = new URL("../../dist/", import.meta.url).href;

/** A daemon as a process of its own, over a registry that takes for ever to release. */
const program = `
  import { closeOnSignals, startDaemon } from "${dist}daemon.js";
  import { memoryRegistry } from "${dist}testing.js";
  const memory = memoryRegistry();
  const release = process.argv[1] === "stuck" ? () => new Promise((done) => setTimeout(done, 1e6)) : memory.release;
  const daemon = await startDaemon({ registry: { ...memory, release }, listen: { host: "127.0.0.1", port: 0 } });
  console.log(daemon.url);
  // Late enough that an immediate end comes before it.
  process.on("SIGHUP", () => setTimeout(() => console.log("still here"), 100));
  await closeOnSignals(daemon);
  process.exit(["SIGTERM", "SIGINT", "SIGHUP"].reduce((sum, name) => sum + process.listenerCount(name), -1));
`;

async function run(how: "quick" | "stuck"): Promise<{ child: ChildProcess; logged(event: string): Promise<void> }> {
  const child = spawn(process.execPath, ["--input-type=module", "-e", program, how], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const [url] = (await once(child.stdout, "data")) as [Buffer];
  const response = await fetch(`${url.toString().trim()}/v1/orders/ids`, { method: "POST" });
  expect(response.status).toBe(200);
  return {
    child,
    async logged(event) {
      const lines = (): string[] =>
        log
          .split("\n")
          .filter((line) => line !== "")
          .map((line) => JSON.parse(line).event);
      await expect.poll(lines).toContain(event);
    },
  };
}

test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
  "%s drains, gives the worker IDs back and removes the signal handlers",
  async (signal) => {
    const { child, logged } = await run("quick");
    child.kill(signal);
    expect((await once(child, "exit"))[0]).toBe(0);
    await logged("released");
  },
);

test("a second signal ends a waiting drain, unless it is a SIGHUP", async () => {
  const { child, logged } = await run("stuck");
  child.kill("SIGTERM");
  await logged("draining");
  child.kill("SIGHUP");
  await once(child.stdout as Readable, "data");
  expect(child.exitCode).toBe(null);
  child.kill("SIGINT");
  expect((await once(child, "exit"))[0]).toBe(0);
});
