import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { type CliResult, Sandbox } from "../support/cli.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const library = fileURLToPath(new URL("../../dist/index.js", import.meta.url));

interface Shown {
  readonly workerId: number;
  readonly state: string;
}

/** Runs a program with this end, after a lease of `orders` that it does not close. */
function ends(sandbox: Sandbox, registry: string, rest: string): Promise<CliResult> {
  const program = `
    import { snowlease } from ${JSON.stringify(library)};
    const ids = await snowlease({ registry: ${JSON.stringify(registry)}, namespace: "orders", window: "30s", operationTimeout: "1s" });
    ids.next();
    ${rest}`;
  const args = ["--input-type=module", "--eval", program];
  const process_ = sandbox.started(spawn(process.execPath, args, sandbox.surroundings()));
  process_.closeStdin();
  return process_.ended;
}

async function shown(sandbox: Sandbox, registry: string): Promise<Shown[]> {
  const text = await sandbox.read(["workers", "--registry", registry, "--namespace", "orders", "--json"]);
  return (JSON.parse(text) as Shown[]).map(({ workerId, state }) => ({ workerId, state }));
}

test.each([
  ["has nothing more to do", "free", ""],
  ["has closed it before", "free", "await ids.close();"],
  ["makes an ID when it ends", "free", "process.once('beforeExit', () => ids.next());"],
  ["has two of them", "free", 'await snowlease({ registry: "memory:" });'],
  ["calls process.exit", "live", "process.exit(0);"],
])("the worker ID of a program that %s is %s at its end", async (_, state, rest) => {
  const sandbox = new Sandbox();
  expect(await ends(sandbox, sandbox.registry, rest)).toMatchObject({ code: 0, stderr: "" });
  expect(await shown(sandbox, sandbox.registry)).toEqual([{ workerId: 0, state }]);
});

test("a program whose registry is gone still ends", async () => {
  const sandbox = new Sandbox();
  const { daemon, url } = await sandbox.serve();
  const ended = ends(
    sandbox,
    url,
    `process.kill(${daemon.pid}, "SIGKILL"); await new Promise((done) => setTimeout(done, 100));`,
  );
  expect(await ended).toMatchObject({ code: 0, stderr: "" });
});

test.skipIf(redisMissing !== undefined)("connections to a server do not keep a program from its end", async () => {
  const sandbox = new Sandbox();
  const server = await RedisServer.start();
  onTestFinished(() => server.remove());
  await sandbox.read(["init", "--new", "--registry", server.url(), "--namespace", "orders"]);
  expect(await ends(sandbox, server.url(), "")).toMatchObject({ code: 0, stderr: "" });
  expect(await shown(sandbox, server.url())).toEqual([{ workerId: 0, state: "free" }]);
});
