import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeCertificates } from "./certificates.ts";
import { type CliResult, until } from "./cli.ts";
import { type ClientSandbox, timeOf, workerOf } from "./client-sandbox.ts";
import { expectAudited, Maker } from "./examples.ts";

/** The programs of a language that make IDs with its client. The variable SNOWLEASE_REGISTRY names their registry. */
export interface HolderPrograms {
  readonly sandbox: ClientSandbox;
  /** The command of a program that prints so many IDs (0: until it is stopped) with so many ms between. It waits 5 s for an ID. */
  readonly ids: (count: number, msBetween?: number) => readonly string[];
  /** The command of a program whose threads, or the like in its language, share one lease. It never gives up. */
  readonly crew: readonly string[];
  /** How many IDs a crew prints. */
  readonly crewIds: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** The exit code after a SIGTERM, at which the program gives its worker ID back. */
  readonly terminated: number;
}

/** Starts a program on a registry. Default: one that makes IDs until it is stopped. */
export function startMaker(
  { sandbox, environment, ids }: HolderPrograms,
  name: string,
  registry: string,
  command: readonly string[] = ids(0, 1),
): Maker {
  return new Maker(sandbox, name, command, { ...environment, SNOWLEASE_REGISTRY: registry });
}

/** Runs a program that makes one ID. */
export async function makeOne(
  { sandbox, environment, ids }: HolderPrograms,
  registry: string,
  env: Readonly<Record<string, string>> = {},
): Promise<CliResult> {
  const [file = "", ...args] = ids(1);
  const variables = { ...environment, SNOWLEASE_REGISTRY: registry, ...env };
  return sandbox.started(spawn(file, args, sandbox.surroundings(variables))).ended;
}

/** Tests what every client does with a worker ID, each with real daemons. Each test calls `programs`. */
export function testHolders(programs: () => HolderPrograms): void {
  const maker = (name: string, registry: string, command?: readonly string[]): Maker =>
    startMaker(programs(), name, registry, command);
  const run = (registry: string, env?: Readonly<Record<string, string>>): Promise<CliResult> =>
    makeOne(programs(), registry, env);

  test("two at once, one of them killed with -9 and replaced, make no ID twice; SIGTERM gives a worker ID back", async () => {
    const { sandbox, ids, terminated } = programs();
    const { url } = await sandbox.startDaemon();
    const [killed, other] = [maker("killed", url), maker("other", url)];
    await Promise.all([killed.made(200), other.made(200)]);
    await killed.process.kill();
    const next = maker("next", url, ids(50_000));
    expect(await next.process.ended).toMatchObject({ code: 0, stderr: "" });
    other.process.signal("SIGTERM");
    expect(await other.process.ended).toMatchObject({ code: terminated, stderr: "" });
    expect((await sandbox.workers()).filter(({ clean }) => clean)).toHaveLength(2);
    expect(next.ids()).toHaveLength(50_000);
    await expectAudited(sandbox, url, [...killed.ids(), ...other.ids(), ...next.ids()]);
  });

  test("crews make no ID twice while daemons are killed and started again", async () => {
    const { sandbox, crew, crewIds } = programs();
    const daemons = [await sandbox.startDaemon(0, "--window", "3s"), await sandbox.startDaemon(0, "--window", "3s")];
    const list = daemons.map(({ url }) => url).join(",");
    const crews = [1, 2, 3].map((n) => maker(`crew-${n}`, list, crew));
    for (let turn = 0; turn < 3; turn++) {
      for (const [at, daemon] of daemons.entries()) {
        await daemon.end("SIGKILL");
        daemons[at] = await sandbox.startDaemon(daemon.port, "--window", "3s");
      }
    }
    for (const { process } of crews) expect(await process.ended).toMatchObject({ code: 0, stderr: "" });
    const ids = crews.flatMap((one) => one.ids());
    expect(ids).toHaveLength(3 * crewIds);
    await expectAudited(sandbox, sandbox.registry, ids);
  });

  test("stops at the end of its window while no daemon answers, and goes on when one does", async () => {
    const { sandbox } = programs();
    const daemon = await sandbox.startDaemon(0, "--window", "2s");
    const holder = maker("ids", daemon.url);
    await holder.made(100);
    daemon.signal("SIGSTOP");
    const [before] = await sandbox.workers();
    await until(() => Date.now() > (before?.until ?? 0));
    expect(holder.ids().every((id) => timeOf(id) < (before?.until ?? 0))).toBe(true);
    // The program waits for 5 s. Starting another daemon may take longer.
    daemon.signal("SIGCONT");
    await until(() => timeOf(holder.ids().at(-1) ?? "0") > (before?.until ?? 0));
    await daemon.end("SIGKILL");
    // This time the daemon does not come back, so the program gives up.
    const gaveUp = { code: 1, stderr: expect.stringMatching(/^LEASE_EXPIRED: [^\n]*\n$/) as string };
    expect(await holder.process.ended).toMatchObject(gaveUp);
    await expectAudited(sandbox, sandbox.registry, holder.ids());
  });

  test("a holder that was stopped for longer than its window makes no ID on a worker ID that another holder has by then", async () => {
    const { sandbox } = programs();
    const { url } = await sandbox.startDaemon(0, "--window", "2s", "--pool", "0");
    const stopped = maker("stopped", url);
    await stopped.made(100);
    stopped.process.signal("SIGSTOP");
    const [held] = await sandbox.workers();
    await until(() => Date.now() > (held?.until ?? 0));
    const other = maker("other", url);
    await other.made(100);
    stopped.process.signal("SIGCONT");
    await until(() => stopped.process.isOver);
    expect(stopped.process.stderr).toMatch(/Worker 0 .* was lost \(taken\); the next ID claims another one\.$/m);
    expect(stopped.process.stderr).toMatch(/^POOL_EXHAUSTED: /m);
    other.process.signal("SIGTERM");
    await other.process.ended;
    const ids = [...stopped.ids(), ...other.ids()];
    expect(new Set(ids.map(workerOf))).toEqual(new Set([0]));
    await expectAudited(sandbox, url, ids);
  });

  test("goes on with another worker ID when its own is taken away, and tells so", async () => {
    const { sandbox, terminated } = programs();
    const { url } = await sandbox.startDaemon(0, "--window", "2s");
    const holder = maker("ids", url);
    await holder.made(50);
    const [held] = await sandbox.workers();
    await sandbox.read(["release", String(held?.workerId), "--force", "--registry", url]);
    // The program may get the same worker ID again, after the window has passed.
    await until(() => holder.process.stderr.includes("takes the place of"));
    await holder.made(50);
    holder.process.signal("SIGTERM");
    const { code, stderr } = await holder.process.ended;
    expect(code).toBe(terminated);
    const told = stderr.match(/Worker .*$/gm) ?? [];
    expect(told.map((line) => line.replace("of namespace `default` ", ""))).toEqual([
      "Worker 0 was lost (released); the next ID claims another one.",
      expect.stringMatching(/^Worker \d+ takes the place of worker 0\.$/),
    ]);
    await expectAudited(sandbox, url, holder.ids());
  });

  test("sends a token, and is refused without one", async () => {
    const { sandbox } = programs();
    const { url } = await sandbox.startDaemon(0, "--tokens", sandbox.tokens("secret-of-it worker"));
    expect(await run(url, { SNOWLEASE_TOKEN: "secret-of-it" })).toMatchObject({ code: 0, stderr: "" });
    expect(await run(`${url}?token=secret-of-it`)).toMatchObject({ code: 0, stderr: "" });
    for (const query of ["", "?token=another-secret"]) {
      const { code, stderr } = await run(`${url}${query}`);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^UNAUTHORIZED: [^\n]*\n$/);
      expect(stderr).not.toContain("another-secret");
    }
  });

  test("reaches a daemon over TLS; it refuses an unknown certificate", async () => {
    const { sandbox } = programs();
    const folder = join(sandbox.work, "tls");
    mkdirSync(folder);
    const { authority, certificate, key } = makeCertificates(folder);
    const tokens = sandbox.tokens("worker-token worker");
    const { url } = await sandbox.startDaemon(0, "--tls-cert", certificate, "--tls-key", key, "--tokens", tokens);
    const address = `https://localhost:${new URL(url).port}`;
    const env = { SNOWLEASE_TOKEN: "worker-token" };
    expect(await run(`${address}?tlsCa=${authority}`, env)).toMatchObject({ code: 0, stderr: "" });
    const unknown = await run(address, env);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("check `tlsCa`") as string });
  });
}
