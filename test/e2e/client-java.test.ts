import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type CliResult, until } from "../support/cli.ts";
import { testBorrowers } from "../support/client-borrowers.ts";
import { type HolderPrograms, testHolders } from "../support/client-holders.ts";
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

  const programs = (): HolderPrograms => ({
    sandbox,
    ids: main,
    crew: crew("8", "5000"),
    crewIds: 8 * 5000,
    terminated: 143,
  });
  testHolders(programs);
  testBorrowers(programs);

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

  test("services with westid borrow one worker ID; a generator that has only the number may not", async () => {
    const { url } = await sandbox.startDaemon(0, "--lend");
    const borrowed = `${url}?borrow=true`;
    const services = ["a", "b"].map((name) => maker(name, borrowed, westid("WestIdService", "20000")));
    for (const { process } of services) expect((await process.ended).code, process.stderr).toBe(0);
    const ids = services.flatMap((service) => service.ids());
    expect(ids).toHaveLength(40_000);
    expect(new Set(ids.map(workerOf)).size).toBe(1);
    await expectAudited(sandbox, url, ids);
    const number = await run(borrowed, westid("WestIdNumber"));
    expect(number).toMatchObject({ code: 1, stdout: "" });
    expect(number.stderr).toContain("CONFIG_INVALID: Expected no `borrow` for a worker ID that another generator uses");
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
