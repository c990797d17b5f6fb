import { spawn } from "node:child_process";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { type CliProcess, type CliResult, Sandbox, until } from "../support/cli.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { Supervisor } from "../support/supervisor.ts";
import { ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

/** Long enough that a busy machine does not look like two clocks, ms. */
const maxClockSkew = 2000;
const window = 4000;
const script = join(import.meta.dirname, "../support/fleet-host.mjs");

const ended: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).toReversed()) await end();
});

/** Where a fleet gets its worker IDs from. */
interface Source {
  readonly url: string;
  /** The registry to which it moves; default: a file. */
  readonly registry?: string;
}

async function redis(): Promise<Source> {
  const server = await RedisServer.start();
  ended.push(() => server.remove());
  return { url: server.url() };
}

async function mariadb(): Promise<Source> {
  const server = await MariadbServer.start();
  ended.push(() => server.remove());
  for (const table of [
    "workerid_assign (worker_id INT NOT NULL PRIMARY KEY, pid INT NOT NULL, ip VARCHAR(15) NOT NULL, hostname VARCHAR(60) NOT NULL, create_time TIMESTAMP NOT NULL)",
    "WORKER_NODE (ID BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, HOST_NAME VARCHAR(64) NOT NULL, PORT VARCHAR(64) NOT NULL, TYPE INT NOT NULL, LAUNCH_DATE DATE NOT NULL)",
    "cosid_machine (name VARCHAR(100) NOT NULL PRIMARY KEY, namespace VARCHAR(100) NOT NULL, machine_id INT NOT NULL, last_timestamp BIGINT NOT NULL, instance_id VARCHAR(100) NOT NULL, distribute_time BIGINT NOT NULL, revert_time BIGINT NOT NULL)",
  ]) {
    await server.query(`CREATE TABLE ${table}`);
  }
  return { url: server.url() };
}

async function ensemble(): Promise<Source> {
  const server = await ZooKeeper.start();
  ended.push(() => server.remove());
  return { url: server.url() };
}

/** A source, the layout of its IDs, and whether a plan has to take another way than the plain one. */
interface Case {
  readonly scheme: string;
  readonly missing?: string | undefined;
  readonly layout?: string;
  readonly more?: readonly string[];
  readonly start: () => Promise<Source>;
  /** The plain plan is refused; what its advice says is planned instead. */
  readonly refused?: RegExp;
  /** A host goes on with its worker ID. */
  readonly keeps?: boolean;
}

const westid = "timestamp:41,worker:10,sequence:12@1490346283706/1";
const cosid = "timestamp:41,worker:10,sequence:12@1577203200000/1";
const uid = "timestamp:29,worker:21,sequence:13@1463673600000/1000";
const twitter = "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1";

const cases: readonly Case[] = [
  { scheme: "ip", start: async () => ({ url: "" }), keeps: true },
  {
    scheme: "westid-redis",
    missing: redisMissing,
    start: redis,
    refused: /can hand out each of the worker IDs 0-1023/,
  },
  { scheme: "westid-sql", missing: mariadbMissing, start: mariadb, refused: /can hand out each/ },
  { scheme: "uid-generator", missing: mariadbMissing, layout: uid, more: ["--source-layout", uid], start: mariadb },
  { scheme: "leaf", missing: zooKeeperMissing, layout: twitter, start: ensemble, keeps: true },
  { scheme: "cosid-redis", missing: redisMissing, layout: cosid, start: redis, refused: /can hand out each/ },
  { scheme: "cosid-sql", missing: mariadbMissing, layout: cosid, start: mariadb, refused: /can hand out each/ },
];

/** A fleet under way. */
class Fleet {
  readonly sandbox = new Sandbox();
  readonly files: string[] = [];
  readonly registry: readonly string[];
  readonly #case: Case;
  readonly #source: Source;
  /** Of what is leased. */
  layout = westid;

  constructor(of: Case, source: Source) {
    this.#case = of;
    this.#source = source;
    const own = source.registry === undefined ? [this.sandbox.registry, "orders"] : [source.registry, "default"];
    this.registry = ["--registry", own[0] ?? "", "--namespace", own[1] ?? ""];
  }

  /** The command line of a program on a host, which leases a worker ID with these options or takes one of the old scheme. */
  #program(scheme: string, last: number, options: object = {}): string[] {
    const file = join(this.sandbox.work, `${this.files.length}.ids`);
    this.files.push(file);
    writeFileSync(file, "");
    const layout = scheme === "lease" ? this.layout : (this.#case.layout ?? westid);
    const host = { address: `10.0.0.${last}`, name: `host-${last}` };
    return [script, JSON.stringify({ scheme, url: this.#source.url, ...host, layout, file, options })];
  }

  /** Starts a program on a host, and waits for its worker ID. */
  async start(scheme: string, last: number): Promise<{ workerId: number; process: CliProcess }> {
    const options = { registry: this.registry[1], namespace: this.registry[3], window };
    const child = spawn(process.execPath, this.#program(scheme, last, options), { stdio: ["ignore", "pipe", "pipe"] });
    const started = this.sandbox.started(child);
    return { workerId: Number(await started.line()), process: started };
  }

  /** Has a service manager run a program on a host, with a worker ID of `snowlease exec`. */
  supervised(last: number): Supervisor {
    const flags = [
      "--ip",
      `10.0.0.${last}`,
      "--host",
      `host-${last}`,
      "--window",
      `${window}ms`,
      "--layout",
      this.layout,
    ];
    const program = ["--", process.execPath, ...this.#program("lease", last)];
    return new Supervisor(this.sandbox, ["exec", ...this.registry, ...flags, ...program]);
  }

  old(last: number): ReturnType<Fleet["start"]> {
    if (this.#case.scheme === "ip")
      appendFileSync(join(this.sandbox.work, "hosts.txt"), `host-${last} 10.0.0.${last}\n`);
    return this.start(this.#case.scheme, last);
  }

  lease(last: number): ReturnType<Fleet["start"]> {
    return this.start("lease", last);
  }

  migrate(step: string, ...args: string[]): Promise<CliResult> {
    const again = step === "plan" || this.#source.url === "" ? [] : ["--source", this.#source.url];
    return this.sandbox.run(["migrate", step, ...args, ...again, ...this.registry, "--json"]);
  }

  plan(...more: readonly string[]): Promise<CliResult> {
    const { scheme, more: own = [] } = this.#case;
    const where = scheme === "ip" ? ["--hosts", "hosts.txt"] : [this.#source.url];
    return this.migrate("plan", "--from", scheme, ...where, ...own, ...more);
  }

  /** How many IDs a program has made so far. */
  count(i: number): number {
    return readFileSync(this.files[i] ?? "", "utf8").split("\n").length - 1;
  }

  /** Waits until each program that runs has made some. */
  async working(processes: readonly CliProcess[]): Promise<void> {
    for (const process of processes) if (process.isOver) throw new Error(process.stderr);
    while (this.files.some((_, i) => this.count(i) < 30)) await sleep(20);
  }

  /** IDs that two programs made, and how many there are in all. */
  repeated(): { readonly twice: number; readonly all: number } {
    const seen = new Set<string>();
    let twice = 0;
    for (const file of this.files) {
      for (const id of readFileSync(file, "utf8").split("\n").slice(0, -1)) {
        if (seen.has(id)) twice++;
        seen.add(id);
      }
    }
    return { twice, all: seen.size };
  }
}

async function stopped(process: CliProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  process.signal(signal);
  await process.ended;
}

/** Makes the namespace that a plan is for, and applies the plan. */
async function applied(fleet: Fleet, planned: CliResult): Promise<void> {
  expect(planned).toMatchObject({ code: 0 });
  const { layout } = JSON.parse(readFileSync(join(fleet.sandbox.work, "snowlease-migration.json"), "utf8"));
  fleet.layout = layout;
  await fleet.sandbox.read([
    "init",
    "--new",
    ...fleet.registry,
    "--layout",
    layout,
    "--max-clock-skew",
    `${maxClockSkew}ms`,
    "--max-window",
    "60s",
  ]);
  expect(await fleet.migrate("apply")).toMatchObject({ code: 0 });
}

test.each(cases)(
  "a fleet moves from $scheme, which goes on handing out worker IDs, and makes no ID twice",
  async (of) => {
    if (of.missing !== undefined) return;
    const fleet = new Fleet(of, await of.start());
    await run(fleet, of);
  },
  180_000,
);

test.each([
  { scheme: "westid-redis", missing: redisMissing, start: redis, query: "?beside=westid" },
  { scheme: "westid-sql", missing: mariadbMissing, start: mariadb, query: "" },
])(
  "beside $scheme, in its very store, a fleet moves although it goes on handing out worker IDs",
  async ({ query, ...of }) => {
    if (of.missing !== undefined) return;
    const source = await of.start();
    await run(new Fleet(of, { ...source, registry: `${source.url}${query}` }), of);
  },
  180_000,
);

test("a host that takes a leased number from its address is a conflict that names both, and nothing is finished", async () => {
  const of: Case = { scheme: "ip", start: async () => ({ url: "" }) };
  const fleet = new Fleet(of, await of.start());
  const { process } = await fleet.old(11);
  await applied(fleet, await fleet.plan());
  await stopped(process);
  const runs = [await fleet.lease(11), await fleet.lease(31), await fleet.lease(32)];
  expect(runs.map(({ workerId }) => workerId)).toEqual([11, 0, 1]);
  runs.push(await fleet.old(1));
  const { hosts, conflict } = JSON.parse((await fleet.migrate("status")).stdout);
  expect(conflict).toBe(1);
  expect(hosts.find(({ state }: { state: string }) => state === "conflict")).toMatchObject({
    name: "host-1",
    rivals: ["host-32 (10.0.0.32), in the registry"],
  });
  expect(await fleet.migrate("finish", "--window", "1s")).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/worker 1 is used by host-1 \(10\.0\.0\.1\) and host-32 \(10\.0\.0\.32\)/) as string,
  });
  expect((await fleet.migrate("apply")).stderr).toMatch(
    /1 host is not in the plan \(host-1 \(10\.0\.0\.1\)\); make a new plan/,
  );
  for (const { process } of runs) await stopped(process);
});

/** Makes a plan, the one that the refusal of the plain one advises where it is refused, and applies it; the plain one. */
async function pinned(fleet: Fleet): Promise<CliResult> {
  const plain = await fleet.plan();
  const advised = /`--layout ([^`]+)`/.exec(plain.stderr)?.[1];
  await applied(fleet, plain.code === 2 && advised !== undefined ? await fleet.plan("--layout", advised) : plain);
  return plain;
}

test.each(cases)(
  "a supervised program moves from $scheme at its first start, and has not moved while its old program is back",
  async (of) => {
    if (of.missing !== undefined) return;
    const fleet = new Fleet(of, await of.start());
    const status = async (): Promise<Record<string, unknown>> => JSON.parse((await fleet.migrate("status")).stdout);
    const hasMoved = async (): Promise<boolean> => {
      const { moved, hosts } = await status();
      return moved === (hosts as unknown[]).length;
    };
    // The first worker ID of Leaf is taken over by no host.
    const [other, old] = [await fleet.old(12), await fleet.old(11)];
    await pinned(fleet);
    await stopped(other.process);
    const others = fleet.supervised(12);
    await stopped(old.process);
    const service = fleet.supervised(11);
    const workerId = Number(await service.line());
    if (of.keeps === true) expect(workerId).toBe(old.workerId);
    await others.line();
    expect([service.runs.length, others.runs.length]).toEqual([1, 1]);
    await until(hasMoved);
    // It ends, and its service manager starts it again.
    service.last.signal("SIGTERM");
    await until(() => service.runs.length > 1);
    await service.line();
    expect(service.runs).toHaveLength(2);
    await until(hasMoved);
    await service.stop();

    const back = await fleet.old(11);
    expect(await status()).toMatchObject({ moved: 1 });
    expect(await fleet.migrate("finish")).toMatchObject({ code: 3, stdout: "" });
    await stopped(back.process);
    const again = fleet.supervised(11);
    await again.line();
    await until(hasMoved);
    await fleet.working([again.last, others.last]);
    expect([again.runs.length, others.runs.length]).toEqual([1, 1]);
    expect(await fleet.migrate("finish", "--window", `${window}ms`)).toMatchObject({ code: 0 });
    await Promise.all([again.stop(), others.stop()]);
    const { twice, all } = fleet.repeated();
    expect(all).toBeGreaterThan(100);
    expect(`${twice} of ${all}`).toBe(`0 of ${all}`);
  },
  180_000,
);

/** Moves a fleet host by host while its source goes on handing out worker IDs, and compares all IDs. */
async function run(fleet: Fleet, of: Case): Promise<void> {
  const before = await Promise.all([11, 12, 13, 14].map((last) => fleet.old(last)));
  const plain = await pinned(fleet);

  const [a, b, c, d] = before as [Started, Started, Started, Started];
  const runs: CliProcess[] = [];
  const moved = async (last: number, old: Started, signal?: NodeJS.Signals): Promise<void> => {
    await stopped(old.process, signal);
    const lease = await fleet.lease(last);
    // The first Leaf has 0 whatever its node says.
    if (of.keeps === true && old.workerId !== 0) expect(lease.workerId).toBe(old.workerId);
    runs.push(lease.process);
  };
  // One after the other: what one gives back, the next that starts gets.
  await moved(11, a);
  const e = await fleet.old(21);
  await moved(12, b, "SIGKILL");
  const f = await fleet.old(22);
  await moved(13, c);
  const g = await fleet.old(23);
  await moved(14, d, "SIGKILL");
  await fleet.working([...runs, e.process, f.process, g.process]);
  await sleep(500);

  // Each host of the plan has moved, and programs have started since.
  const early = await fleet.migrate("finish");
  for (const each of [e, f, g]) await stopped(each.process);
  for (const last of [21, 22, 23]) runs.push((await fleet.lease(last)).process);
  const status = await fleet.migrate("status");
  const finish = await fleet.migrate("finish", "--window", `${window}ms`);
  for (const last of [31, 32, 33, 34]) runs.push((await fleet.lease(last)).process);
  await fleet.working(runs);
  for (const process of runs) await stopped(process);

  const { twice, all } = fleet.repeated();
  expect(all).toBeGreaterThan(1000);
  expect(`${twice} of ${all}`).toBe(`0 of ${all}`);
  expect(plain.stderr).toMatch(of.refused ?? /^/);
  expect(plain.code).toBe(of.refused === undefined ? 0 : 2);
  expect(early).toMatchObject({ code: 3, stdout: "" });
  expect(JSON.parse(status.stdout)).toMatchObject({ old: 0, conflict: 0 });
  expect(finish).toMatchObject({ code: 0 });
}

type Started = Awaited<ReturnType<Fleet["start"]>>;
