import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { makeCertificates } from "../support/certificates.ts";
import { type CliResult, until } from "../support/cli.ts";
import { ClientSandbox, timeOf, workerOf } from "../support/client-sandbox.ts";
import { expectAudited, Maker } from "../support/examples.ts";
import { hasMaven, JavaBuild } from "../support/java/java.ts";
import { freePort } from "../support/servers.ts";

let build: JavaBuild;
let sandbox: ClientSandbox;

const program = (name: string): string => fileURLToPath(new URL(`../support/java/${name}.java`, import.meta.url));

/** Options for JVMs that share two cores: little to compile, little memory. */
const java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"];
const main = (count: number, pause = 0): string[] => [
  ...java,
  "-cp",
  build.jar,
  program("Ids"),
  String(count),
  String(pause),
];
const crew = (...args: string[]): string[] => [...java, "-cp", build.jar, program("Crew"), ...args];
const westid = (name: string, ...args: string[]): string[] => [...java, "-cp", build.westid, program(name), ...args];
/** A program that makes an ID each millisecond, until it is stopped. */
const endless = (): string[] => main(0, 1);

function maker(name: string, registry: string, command: readonly string[]): Maker {
  return new Maker(sandbox, name, command, { SNOWLEASE_REGISTRY: registry });
}

async function run(
  registry: string,
  [file = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CliResult> {
  return sandbox.started(spawn(file, args, sandbox.surroundings({ SNOWLEASE_REGISTRY: registry, ...env }))).ended;
}

/** The exit code of a JVM that SIGTERM ended, after its shutdown hooks. */
const terminated = { code: 143, stderr: "" };
describe.skipIf(!hasMaven(17))("the Java client", { timeout: 300_000 }, () => {
  beforeAll(() => {
    build = new JavaBuild();
  }, 600_000);
  beforeEach(() => {
    sandbox = new ClientSandbox();
  });

  test("passes its own tests", () => {
    build.test();
  });

  test("two at once, one of them killed with -9 and replaced, make no ID twice; SIGTERM gives a worker ID back", async () => {
    const { url } = await sandbox.startDaemon();
    const [killed, other] = [maker("killed", url, endless()), maker("other", url, endless())];
    await Promise.all([killed.made(200), other.made(200)]);
    await killed.process.kill();
    const next = maker("next", url, main(50_000));
    expect(await next.process.ended).toMatchObject({ code: 0, stderr: "" });
    other.process.signal("SIGTERM");
    expect(await other.process.ended).toMatchObject(terminated);
    expect((await sandbox.workers()).filter(({ clean }) => clean)).toHaveLength(2);
    expect(next.ids()).toHaveLength(50_000);
    await expectAudited(sandbox, url, [...killed.ids(), ...other.ids(), ...next.ids()]);
  });

  test("eight threads in each of three JVMs make no ID twice while daemons are killed and started again", async () => {
    const daemons = [await sandbox.startDaemon(0, "--window", "3s"), await sandbox.startDaemon(0, "--window", "3s")];
    const list = daemons.map(({ url }) => url).join(",");
    const crews = [1, 2, 3].map((n) => maker(`crew-${n}`, list, crew("8", "5000")));
    for (let turn = 0; turn < 3; turn++) {
      for (const [at, daemon] of daemons.entries()) {
        await daemon.end("SIGKILL");
        daemons[at] = await sandbox.startDaemon(daemon.port, "--window", "3s");
      }
    }
    for (const { process } of crews) expect(await process.ended).toMatchObject({ code: 0, stderr: "" });
    const ids = crews.flatMap((one) => one.ids());
    expect(ids).toHaveLength(3 * 8 * 5000);
    await expectAudited(sandbox, sandbox.registry, ids);
  });

  test("stops at the end of its window while no daemon answers, and goes on when one does", async () => {
    const daemon = await sandbox.startDaemon(0, "--window", "2s");
    const holder = maker("ids", daemon.url, endless());
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
    expect(await holder.process.ended).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^LEASE_EXPIRED: [^\n]*\n$/) as string,
    });
    await expectAudited(sandbox, sandbox.registry, holder.ids());
  });

  test("a holder that was stopped for longer than its window makes no ID on a worker ID that another holder has by then", async () => {
    const { url } = await sandbox.startDaemon(0, "--window", "2s", "--pool", "0");
    const stopped = maker("stopped", url, endless());
    await stopped.made(100);
    stopped.process.signal("SIGSTOP");
    const [held] = await sandbox.workers();
    await until(() => Date.now() > (held?.until ?? 0));
    const other = maker("other", url, endless());
    await other.made(100);
    stopped.process.signal("SIGCONT");
    await until(() => stopped.process.isOver);
    expect(stopped.process.stderr).toMatch(/was lost \(taken\); .*$/m);
    expect(stopped.process.stderr).toMatch(/^POOL_EXHAUSTED: /m);
    other.process.signal("SIGTERM");
    await other.process.ended;
    const ids = [...stopped.ids(), ...other.ids()];
    expect(new Set(ids.map(workerOf))).toEqual(new Set([0]));
    await expectAudited(sandbox, url, ids);
  });

  test("goes on with another worker ID when its own is taken away", async () => {
    const { url } = await sandbox.startDaemon(0, "--window", "2s");
    const holder = maker("ids", url, endless());
    await holder.made(50);
    const [held] = await sandbox.workers();
    await sandbox.read(["release", String(held?.workerId), "--force", "--registry", url]);
    await until(() => new Set(holder.ids().map(workerOf)).size === 2);
    holder.process.signal("SIGTERM");
    const { code, stderr } = await holder.process.ended;
    expect(code).toBe(143);
    expect(stderr).toMatch(/Worker \d+ of namespace `default` was lost \(released\); .*$/m);
    expect(stderr).toMatch(/Worker \d+ of namespace `default` takes the place of worker \d+\.$/m);
    await expectAudited(sandbox, url, holder.ids());
  });

  test("sends a token, and is refused without one", async () => {
    const { url } = await sandbox.startDaemon(0, "--tokens", sandbox.tokens("secret-of-it worker"));
    expect(await run(url, main(1), { SNOWLEASE_TOKEN: "secret-of-it" })).toMatchObject({ code: 0, stderr: "" });
    expect(await run(`${url}?token=secret-of-it`, main(1))).toMatchObject({ code: 0, stderr: "" });
    for (const query of ["", "?token=another-secret"]) {
      const { code, stderr } = await run(`${url}${query}`, main(1));
      expect(code).toBe(1);
      expect(stderr).toMatch(/^UNAUTHORIZED: [^\n]*\n$/);
      expect(stderr).not.toContain("another-secret");
    }
  });

  test("reaches a daemon over TLS; it refuses an unknown certificate", async () => {
    const folder = join(sandbox.work, "tls");
    mkdirSync(folder);
    const { authority, certificate, key } = makeCertificates(folder);
    const tls = ["--tls-cert", certificate, "--tls-key", key];
    const { url } = await sandbox.startDaemon(0, ...tls, "--tokens", sandbox.tokens("worker-token worker"));
    const port = new URL(url).port;
    const env = { SNOWLEASE_TOKEN: "worker-token" };
    expect(await run(`https://localhost:${port}?tlsCa=${authority}`, main(1), env)).toMatchObject({
      code: 0,
      stderr: "",
    });
    const unknown = await run(`https://localhost:${port}`, main(1), env);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining("check `tlsCa`") as string });
  });

  test("one line moves a service with westid to a lease; its bindings are kept, and bad ones refused", async () => {
    const { url } = await sandbox.startDaemon();
    const services = ["a", "b"].map((name) => maker(name, url, westid("WestIdService", "20000")));
    for (const { process } of services) expect((await process.ended).code, process.stderr).toBe(0);
    const ids = services.flatMap((service) => service.ids());
    expect(ids).toHaveLength(40_000);
    await expectAudited(sandbox, url, ids);
    // By its environment, as with westid.
    const bound = await run(url, westid("WestIdService", "5"), { WESTID_WORKERID: "77" });
    expect(bound.stdout.trim().split("\n").map(workerOf)).toEqual([77, 77, 77, 77, 77]);
    const property = { JDK_JAVA_OPTIONS: "-Dwestid.workerId=78", WESTID_WORKERID: "77" };
    expect((await run(url, westid("WestIdService", "1"), property)).stdout).toSatisfy(
      (id: string) => workerOf(id.trim()) === 78,
    );
    const bad = await run(url, westid("WestIdService", "1"), { WESTID_WORKERID: "1024" });
    expect(bad).toMatchObject({ code: 1, stdout: "" });
    expect(bad.stderr).toContain("Expected the variable WESTID_WORKERID to be one integer from 0 to 1023, got [1024].");
  });

  test("a generator that has only a leased worker ID learns when the lease is lost, and when its window is about to end", async () => {
    const daemon = await sandbox.startDaemon(0, "--window", "3s");
    const taken = maker("taken", daemon.url, westid("WestIdNumber"));
    await taken.made(100);
    const [held] = await sandbox.workers();
    await sandbox.read(["release", String(held?.workerId), "--force", "--registry", daemon.url]);
    expect(await taken.process.ended).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/The lease has ended\.\n$/) as string,
    });
    const unheard = maker("unheard", daemon.url, westid("WestIdNumber"));
    await unheard.made(100);
    await daemon.end("SIGKILL");
    expect(await unheard.process.ended).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/The lease has ended\.\n$/) as string,
    });
    const ids = unheard.ids();
    expect(new Set(ids).size).toBe(ids.length);
    const last = (await sandbox.workers()).find(({ workerId }) => workerId === workerOf(ids.at(-1) ?? "0"));
    expect(timeOf(ids.at(-1) ?? "0")).toBeLessThan(last?.until ?? 0);
    expect(last?.clean).toBe(false);
  });

  test("a Spring Boot service answers with IDs, and gives its worker ID back when it stops", async () => {
    const { url } = await sandbox.startDaemon();
    const port = await freePort();
    const flags = [`--snowlease.registry=${url}`, `--server.port=${port}`, "--server.address=127.0.0.1"];
    const [file = "", ...args] = [...java, "-jar", build.springBoot, ...flags];
    const service = sandbox.started(spawn(file, args, sandbox.surroundings()));
    const order = async (): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${port}/orders`, { method: "POST" });
      expect(response.status).toBe(200);
      return ((await response.json()) as { id: string }).id;
    };
    await until(() =>
      fetch(`http://127.0.0.1:${port}/`).then(
        () => true,
        () => service.isOver,
      ),
    );
    const ids = (
      await Promise.all(Array.from({ length: 8 }, () => Promise.all(Array.from({ length: 25 }, order))))
    ).flat();
    service.signal("SIGTERM");
    await service.ended;
    expect(ids).toHaveLength(200);
    expect((await sandbox.workers()).map(({ clean }) => clean)).toEqual([true]);
    await expectAudited(sandbox, url, ids);
  });
});
