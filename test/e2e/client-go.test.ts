import { spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../support/certificates.ts";
import { type CliResult, until } from "../support/cli.ts";
import { ClientSandbox, timeOf, workerOf } from "../support/client-sandbox.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { expectAudited, Maker } from "../support/examples.ts";
import { goClient, goEnvironment, goPrograms, hasGo } from "../support/go/tools.ts";
import { HolderProcess } from "../support/holder.ts";

let programs: string;
let sandbox: ClientSandbox;

/** A program that writes its IDs to a file. */
function maker(name: string, registry: string, program: string, ...args: readonly string[]): Maker {
  return new Maker(sandbox, name, [join(programs, program), ...args], { SNOWLEASE_REGISTRY: registry });
}

/** A program that makes an ID each millisecond, until it is stopped. */
const endless = (name: string, registry: string): Maker => maker(name, registry, "snowlease-ids", "0", "1");

/** Prints one ID, or the reason for none. */
function printOne(registry: string, env: Readonly<Record<string, string>> = {}): Promise<CliResult> {
  const surroundings = sandbox.surroundings({ SNOWLEASE_REGISTRY: registry, ...env });
  return sandbox.started(spawn(join(programs, "snowlease-ids"), ["1"], surroundings)).ended;
}

/** Stops it, and returns its log. */
async function stop(maker: Maker): Promise<string> {
  maker.process.signal("SIGTERM");
  const { code, stderr } = await maker.process.ended;
  expect(code, stderr).toBe(0);
  return stderr;
}

/** Runs `go` in the client's folder; it has to succeed. */
function go(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync("go", args, { cwd: goClient, env: goEnvironment, encoding: "utf8" });
  expect({ status, said: status === 0 ? "" : `${stdout}${stderr}` }).toEqual({ status: 0, said: "" });
  return stdout;
}

describe.skipIf(!hasGo())("the Go client", { timeout: 300_000 }, () => {
  beforeAll(() => {
    programs = goPrograms();
  }, 300_000);
  beforeEach(() => {
    sandbox = new ClientSandbox();
  });

  test("is formatted, vetted, and needs no other module", () => {
    const gofmt = join(go("env", "GOROOT").trim(), "bin/gofmt");
    expect(spawnSync(gofmt, ["-l", "."], { cwd: goClient, encoding: "utf8" })).toMatchObject({ status: 0, stdout: "" });
    go("vet", "./...");
    expect(go("list", "-m", "all").trim().split("\n")).toHaveLength(1);
  });

  test("passes its own tests under the race detector, and skips none", () => {
    const said = go("test", "-race", "-count=1", "-v", "./...");
    expect(said).toContain("--- PASS: TestBlockVectors");
    expect(said).not.toContain("--- SKIP");
  });

  test("two at once, one of them killed with -9 and replaced, make no ID twice; SIGTERM gives a worker ID back", async () => {
    const { url } = await sandbox.startDaemon();
    const [killed, other] = [endless("killed", url), endless("other", url)];
    await Promise.all([killed.made(200), other.made(200)]);
    await killed.process.kill();
    const next = maker("next", url, "snowlease-ids", "50000");
    expect(await next.process.ended).toMatchObject({ code: 0, stderr: "" });
    await stop(other);
    expect((await sandbox.workers()).filter(({ clean }) => clean)).toHaveLength(2);
    expect(next.ids()).toHaveLength(50_000);
    await expectAudited(sandbox, url, [...killed.ids(), ...other.ids(), ...next.ids()]);
  });

  test("processes of 8 goroutines make no ID twice while daemons are killed and started again", async () => {
    const daemons = [await sandbox.startDaemon(0, "--window", "3s"), await sandbox.startDaemon(0, "--window", "3s")];
    const list = daemons.map(({ url }) => url).join(",");
    const crews = [1, 2, 3].map((n) => maker(`crew-${n}`, list, "crew", "8", "0"));
    await Promise.all(crews.map((crew) => crew.made(2000)));
    for (let turn = 0; turn < 3; turn++) {
      for (const [at, daemon] of daemons.entries()) {
        await daemon.end("SIGKILL");
        await Promise.all(crews.map((crew) => crew.made(1000)));
        daemons[at] = await sandbox.startDaemon(daemon.port, "--window", "3s");
      }
    }
    for (const crew of crews) expect(await stop(crew)).toBe("");
    expect((await sandbox.workers()).every(({ clean }) => clean)).toBe(true);
    await expectAudited(
      sandbox,
      sandbox.registry,
      crews.flatMap((crew) => crew.ids()),
    );
  });

  test("goes on with another daemon while the first one is stopped", async () => {
    const [first, second] = [
      await sandbox.startDaemon(0, "--window", "3s"),
      await sandbox.startDaemon(0, "--window", "3s"),
    ];
    const holder = endless("ids", `${first.url},${second.url}`);
    await holder.made(50);
    first.signal("SIGSTOP");
    const [held] = await sandbox.workers();
    await until(() => holder.process.isOver || timeOf(holder.ids().at(-1) ?? "0") > (held?.until ?? 0));
    const late = endless("late", `${first.url},${second.url}`);
    await late.made(50);
    first.signal("SIGCONT");
    await stop(holder);
    await stop(late);
    await expectAudited(sandbox, sandbox.registry, [...holder.ids(), ...late.ids()]);
  });

  test("stops at the end of its window while no daemon answers, and goes on when one does", async () => {
    const daemon = await sandbox.startDaemon(0, "--window", "2s");
    const holder = endless("ids", daemon.url);
    await holder.made(100);
    daemon.signal("SIGSTOP");
    const [before] = await sandbox.workers();
    await until(() => Date.now() > (before?.until ?? 0));
    expect(holder.ids().every((id) => timeOf(id) < (before?.until ?? 0))).toBe(true);
    // It waits for 5 s: another daemon may take longer to start.
    daemon.signal("SIGCONT");
    await until(() => timeOf(holder.ids().at(-1) ?? "0") > (before?.until ?? 0));
    await daemon.end("SIGKILL");
    // For good this time: it gives up.
    const { code, stderr } = await holder.process.ended;
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^LEASE_EXPIRED: /) as string });
    await expectAudited(sandbox, sandbox.registry, holder.ids());
  });

  test("a holder that was stopped for longer than its window makes no ID on a worker ID that another holder has by then", async () => {
    const { url } = await sandbox.startDaemon(0, "--window", "2s", "--pool", "0");
    const stopped = endless("stopped", url);
    await stopped.made(100);
    stopped.process.signal("SIGSTOP");
    const [held] = await sandbox.workers();
    await until(() => Date.now() > (held?.until ?? 0));
    const other = endless("other", url);
    await other.made(100);
    stopped.process.signal("SIGCONT");
    await until(() => stopped.process.isOver);
    expect(stopped.process.stderr).toMatch(/^LEASE_EXPIRED: .*lost/m);
    await stop(other);
    const ids = [...stopped.ids(), ...other.ids()];
    expect(new Set(ids.map(workerOf))).toEqual(new Set([0]));
    await expectAudited(sandbox, url, ids);
  });

  test("goes on with another worker ID when its own is taken away", async () => {
    const { url } = await sandbox.startDaemon(0, "--window", "2s");
    const holder = endless("ids", url);
    await holder.made(50);
    const [held] = await sandbox.workers();
    await sandbox.read(["release", String(held?.workerId), "--force", "--registry", url]);
    await until(() => new Set(holder.ids().map(workerOf)).size === 2);
    expect(await stop(holder)).toMatch(/WARN .*lost.* namespace=default worker=0 reason=released\n/);
    await expectAudited(sandbox, url, holder.ids());
  });

  test("sends a token, and is refused without one", async () => {
    const { url } = await sandbox.startDaemon(0, "--tokens", sandbox.tokens("secret-of-it worker"));
    expect(await printOne(url, { SNOWLEASE_TOKEN: "secret-of-it" })).toMatchObject({ code: 0, stderr: "" });
    for (const wrong of ["", "another-secret"]) {
      const { code, stderr } = await printOne(url, { SNOWLEASE_TOKEN: wrong });
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^UNAUTHORIZED: /) as string });
      expect(stderr).not.toContain("secret");
    }
  });

  test("reaches a daemon over TLS, and over a socket; it refuses an unknown certificate", async () => {
    const folder = join(sandbox.work, "tls");
    mkdirSync(folder);
    const { authority, certificate, key } = makeCertificates(folder);
    const tokens = ["--tokens", sandbox.tokens("worker-token worker")];
    const { port } = await sandbox.startDaemon(0, "--tls-cert", certificate, "--tls-key", key, ...tokens);
    const env = { SNOWLEASE_TOKEN: "worker-token" };
    expect(await printOne(`https://localhost:${port}?tlsCa=${authority}`, env)).toMatchObject({ code: 0, stderr: "" });
    const unknown = await printOne(`https://localhost:${port}`, env);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("check `tlsCa`") as string });
    const socket = join(sandbox.work, "d.sock");
    await sandbox.serve("--socket", socket, "--listen", "127.0.0.1:0");
    expect(await printOne(`unix:${socket}`)).toMatchObject({ code: 0, stderr: "" });
  });

  test("refuses daemons of two registries", async () => {
    const { url } = await sandbox.startDaemon();
    const other = await startDaemonProcess(`sqlite:${join(sandbox.work, "other.db")}`);
    onTestFinished(async () => void (await other.end("SIGKILL")));
    const { code, stderr } = await printOne(`${url},${other.url}`);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining("different registries") as string });
  });

  test("takes blocks of a lent lease, and does not take the lease for its own", async () => {
    const script = `exec ${join(programs, "snowlease-ids")} 5000`;
    const lent = (query: string): Promise<CliResult> => {
      const command = ["sh", "-c", `SNOWLEASE_REGISTRY="unix:$SNOWLEASE_LEASE_SOCKET${query}" ${script}`];
      return sandbox.run(["exec", "--registry", sandbox.registry, "--", ...command]);
    };
    const alone = await lent("");
    expect(alone).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^CONFIG_INVALID: /) as string });
    const { code, stdout, stderr } = await lent("?borrow=true");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const ids = stdout.trim().split("\n");
    expect(ids).toHaveLength(5000);
    await expectAudited(sandbox, sandbox.registry, ids);
  });

  test("processes, Node processes and their daemon use one worker ID; some are killed or stopped, the daemon is killed and comes back", async () => {
    const socket = join(sandbox.work, "d.sock");
    const start = (...flags: string[]): Promise<DaemonProcess> =>
      sandbox.startDaemon(0, "--window", "6s", "--socket", socket, "--lend", ...flags);
    const lender = await start();
    const registry = `unix:${socket}?borrow=true`;
    const made: string[] = [];
    const makeThere = async (url: string): Promise<void> => {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${url}/v1/default/ids`, { method: "POST", body: '{"count":2000}', headers });
      made.push(...((await answer.json()) as { ids: string[] }).ids);
    };
    const borrowers = [1, 2, 3, 4].map((n) => maker(`borrower-${n}`, registry, "crew", String(n), "0"));
    const nodes = [1, 2, 3].map(() => new HolderProcess({ registry }));
    onTestFinished(async () => void (await Promise.all(nodes.map((node) => node.kill()))));
    await Promise.all(nodes.map((node) => node.ask("start").then(() => node.ask("run"))));
    await Promise.all(borrowers.map((borrower) => borrower.made(2000)));
    await makeThere(lender.url);
    const all = (): string[] => [
      ...made,
      ...borrowers.flatMap((borrower) => borrower.ids()),
      ...nodes.flatMap((node) => node.ids().map(String)),
    ];
    const [first = 0, ...others] = new Set(all().map(workerOf));
    expect(others).toEqual([]);

    const [killed, stopped, ...left] = borrowers;
    const [killedNode, ...leftNodes] = nodes;
    await killed?.process.kill();
    await killedNode?.kill();
    stopped?.process.signal("SIGSTOP");
    await lender.end("SIGKILL");
    // The worker ID of the killed daemon still rests, or its window has ended: in both cases the borrowers go on with another one.
    const next = await start("--pool", `${first + 1}-1023`);
    await makeThere(next.url);
    const hasMoved = (ids: readonly string[]): boolean => workerOf(ids.at(-1) ?? "0") !== first;
    await until(() => left.every((borrower) => borrower.process.isOver || hasMoved(borrower.ids())));
    await until(() => leftNodes.every((node) => hasMoved(node.ids().map(String))));
    // Longer than the window of the killed daemon.
    const ends = Date.now() + 7000;
    await until(() => Date.now() > ends);
    stopped?.process.signal("SIGCONT");
    await until(() => stopped === undefined || stopped.process.isOver || hasMoved(stopped.ids()));
    await makeThere(next.url);
    for (const borrower of [stopped, ...left]) if (borrower !== undefined) await stop(borrower);
    await Promise.all(leftNodes.map((node) => node.ask("close")));
    expect(new Set(all().map(workerOf)).size).toBe(2);
    await expectAudited(sandbox, sandbox.registry, all());
  });
});
