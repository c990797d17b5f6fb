import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hostAddress, ipAssigner } from "../../src/assigners/ip.ts";
import { registryAssigner } from "../../src/assigners/registry.ts";
import { resolveConfig } from "../../src/config/config.ts";
import { firstOf, type WorkerIdAssigner } from "../../src/lease/assigner.ts";
import { type ErrorCode, SnowleaseError } from "../../src/id/errors.ts";
import { type Clock, systemClock } from "../../src/clock.ts";
import { layouts } from "../../src/id/layout.ts";
import type { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import { startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { lendLease, lendOverSocket } from "../../src/lend.ts";
import { workerIdVariables } from "../../src/config/lent-lease.ts";
import { SharedUsageTracker } from "../../src/sharing/usage-tracker.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { openLease, openRegistry, type RegistryToOpen, snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { fakeClock } from "../../src/testing.ts";

const run = promisify(execFile);
const ours = /^(SNOWLEASE_|WESTID_|XDG_STATE_HOME$)/;

const silent = pino({ level: "silent" });

let folder: string;
let before: { env: NodeJS.ProcessEnv; argv: string[] };
let made: { close(): Promise<unknown> }[];
/**
 * The clock of registries and generators. It stands still: no window and no deadline passes, whatever the machine does meanwhile. But a
 * sleep by it ends in real time, so that what failed is tried again.
 */
let clock: Clock;

beforeEach(() => {
  clock = { ...fakeClock({ start: Date.now() }), sleep: systemClock.sleep };
  folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  made = [];
  before = { env: { ...process.env }, argv: process.argv };
  for (const name of Object.keys(process.env).filter((name) => ours.test(name))) delete process.env[name];
  process.env["XDG_STATE_HOME"] = folder;
  process.argv = process.argv.slice(0, 2);
});

afterEach(async () => {
  for (const one of made.toReversed()) await one.close();
  process.env = before.env;
  process.argv = before.argv;
  rmSync(folder, { recursive: true });
});

/** A generator that is closed after the test. An assigner may take as long as the machine makes it take. */
async function opened(options?: SnowleaseOptions): Promise<Snowflake> {
  const ids = await snowlease({ clock, operationTimeout: "10m", ...options });
  made.push({ close: () => ids.close() });
  return ids;
}

async function refusal(options: unknown, code: ErrorCode): Promise<SnowleaseError> {
  const error: unknown = await opened(options as SnowleaseOptions).then(
    ({ lease }) => new Error(`got worker ${lease.workerId}`),
    (error: unknown) => error,
  );
  if (!(error instanceof SnowleaseError) || error.code !== code) throw error;
  return error;
}

/** A registry in memory that counts how often it was closed. */
function countingRegistry(): Registry & { readonly closed: number } {
  let closed = 0;
  const registry = memoryRegistry({ clock });
  return {
    ...registry,
    get closed() {
      return closed;
    },
    async close() {
      closed++;
      await registry.close();
    },
  };
}

const defaultFile = (): string => join(folder, "snowlease/registry.db");
const lastBits = async (): Promise<number> => {
  const { pool } = layouts.westid;
  const request = { layout: layouts.westid, pool, fixed: pool, options: {} };
  return (await ipAssigner().assign(request as never, new AbortController().signal)) as number;
};

describe("a registry for several namespaces", () => {
  it("is opened once, and stays open until it is closed", async () => {
    const registry = await openRegistry({
      registry: `sqlite:${join(folder, "one.db")}`,
      operationTimeout: "10m",
      clock,
    });
    made.push(registry);
    const [orders, invoices] = await Promise.all([
      opened({ registry, namespace: "orders" }),
      opened({ registry, namespace: "invoices" }),
    ]);
    expect([orders.lease.workerId, invoices.lease.workerId]).toEqual([0, 0]);
    const first = orders.next();
    await orders.close();
    expect(await registry.worker("orders", 0)).toMatchObject({ clean: true });
    const again = await opened({ registry, namespace: "orders" });
    expect(again.next()).not.toBe(first);
    expect(await registry.worker("invoices", 0)).toMatchObject({ state: "live" });
  });

  it("that a program has already is returned as it is", async () => {
    const registry = memoryRegistry({ clock });
    expect(await openRegistry({ registry })).toBe(registry);
  });

  it.each<[unknown, RegExp]>([
    [{}, /^Expected the option `registry` of `openRegistry`, got none/],
    [{ registry: undefined }, /^Expected the option `registry` to have a value, got undefined/],
    [undefined, /^Expected the options to be an object, got `undefined`/],
    [{ registry: "memory:", windw: 1 }, /`windw`/],
    [
      { registry: "memory:?namespace=orders" },
      /^Expected no `namespace` in the registry URL from the option `registry`: `openRegistry` makes no lease; pass it to `snowlease\(\)`\.$/,
    ],
    [{ registry: memoryRegistry(), namespace: "orders" }, /^Expected no `namespace` in the options/],
    [{ registry: "memory:?worker=3" }, /^Expected no `worker` in the registry URL/],
    [{ registry: "sqlite:/dev/null/registry.db" }, /registry\.db/],
  ])("%j is refused", async (options, message) => {
    await expect(openRegistry(options as RegistryToOpen)).rejects.toThrow(message);
  });
});

describe("with nothing configured", () => {
  it("claims the end of the host's address in the embedded registry", async () => {
    const ids = await opened();
    expect(ids.lease.workerId).toBe(await lastBits());
    expect(existsSync(defaultFile())).toBe(true);
    const id = ids.next();
    expect(layouts.westid.decompose(id).workerId).toBe(ids.lease.workerId);
    expect(ids.lease.until - clock.now()).toBeLessThanOrEqual(2000);
  });

  it("refuses a second generator in this process, and says that there is one", async () => {
    const { lease } = await opened({ instance: "first" });
    const error = await refusal({ claimTimeout: 0 }, "WORKER_ID_HELD");
    expect(error.message).toMatch(
      new RegExp(
        `^Worker ${lease.workerId} of namespace \`default\` is held by this process itself, ` +
          `since \\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z; use that generator, or close it first\\.$`,
      ),
    );
    expect(error.details["refusal"]).toMatchObject({
      holder: { host: hostname(), pid: process.pid, instance: "first" },
    });
    expect(error.details.retryAfterMs).toBeGreaterThan(0);
  });

  it("waits one window for its worker ID, which then is given back", async () => {
    const first = await opened();
    let waits = (): void => {};
    const asleep = new Promise<void>((resolve) => (waits = resolve));
    const sleep: Clock["sleep"] = (...terms) => {
      waits();
      return clock.sleep(...terms);
    };
    const second = opened({ window: 5000, clock: { ...clock, sleep } });
    await Promise.race([asleep, second]);
    await first.close();
    expect((await second).lease.workerId).toBe(await lastBits());
  });

  it("refuses an address that the pool leaves out", async () => {
    expect((await refusal({ ip: "10.0.0.7", pool: "8-9" }, "CONFIG_INVALID")).message).toContain("in the pool 8-9");
    expect(existsSync(defaultFile())).toBe(false);
  });

  it("adds no advice where the number was asked for by name", async () => {
    await opened({ workerId: 5 });
    const { message } = await refusal({ workerId: 5, claimTimeout: 0 }, "WORKER_ID_HELD");
    expect(message).not.toContain("end of this host's address");
  });
});

describe("the worker ID", () => {
  /** Everything that could name one, from the strongest down. */
  const sources: [string, SnowleaseOptions, number][] = [
    ["an option", { workerId: 1 }, 1],
    ["a property", { properties: { "westid.workerId": 2 } }, 2],
    ["our environment", {}, 3],
    ["westid's environment", {}, 4],
    ["a custom assigner", { assigner: { name: "own", assign: async () => 5 } }, 5],
    ["the ordinal", { ordinal: true, host: "orders-6" }, 6],
    ["the registry", { registry: "memory:", pool: "0-99" }, 0],
  ];

  it.each(sources.map((_, first) => first))("is that of the first source that has one: from %d on", async (first) => {
    const given = sources.slice(first);
    if (first <= 2) process.env["SNOWLEASE_WORKER_ID"] = "3";
    if (first <= 3) process.env["WESTID_WORKERID"] = "4";
    const options = Object.assign({}, ...given.map(([, options]) => options).toReversed()) as SnowleaseOptions;
    expect((await opened(options)).lease.workerId).toBe(given[0]?.[2]);
  });

  it("may stand among the program's arguments", async () => {
    process.argv = [...process.argv, "serve", "-Dwestid.workerId=77"];
    process.env["SNOWLEASE_WORKER_ID"] = "3";
    expect((await opened()).lease.workerId).toBe(77);
  });

  it("may stand in a variable of another name", async () => {
    process.env["SNOWLEASE_WORKER_ID"] = "3";
    process.env["ORDERS_ID"] = "9";
    expect((await opened({ env: "ORDERS_ID" })).lease.workerId).toBe(9);
  });

  it("may come from a module that the environment names", async () => {
    writeFileSync(join(folder, "mine.mjs"), 'export default { name: "mine", assign: async () => 21 };');
    process.env["SNOWLEASE_ASSIGNER"] = join(folder, "mine.mjs");
    expect((await opened()).lease.workerId).toBe(21);
  });

  it("is picked by the registry where a custom assigner passes and one is named", async () => {
    const assigner = firstOf({ name: "none", assign: async () => undefined });
    const ids = await opened({ assigner, registry: "memory:", pool: "8-9" });
    expect(ids.lease.workerId).toBe(8);
    expect(ids.lease.until - clock.now()).toBeGreaterThan(30_000);
  });

  it("of the file is weaker than that of the environment, that of a flag stronger", async () => {
    writeFileSync(join(folder, "snowlease.json"), '{"workerId": 30}');
    const leaseOf = async (flags: Record<string, string>, env: Record<string, string>): Promise<number> => {
      const state = { XDG_STATE_HOME: folder };
      const config = resolveConfig({ flags, env: { ...env, ...state }, cwd: folder });
      const lease = await openLease(config, { env, argv: [], clock });
      made.push(lease);
      return lease.workerId;
    };
    expect(await leaseOf({}, {})).toBe(30);
    expect(await leaseOf({}, { WESTID_WORKERID: "31" })).toBe(31);
    expect(await leaseOf({ "worker-id": "32" }, { WESTID_WORKERID: "31" })).toBe(32);
  });

  it.each<[object, Record<string, string>]>([
    [{ workerId: "7.0" }, {}],
    [{ workerId: 1024 }, {}],
    [{ properties: { "snowlease.workerId": "" } }, {}],
    [{}, { SNOWLEASE_WORKER_ID: "abc" }],
    [{}, { WESTID_WORKERID: " 7" }],
    [{ registry: "memory:" }, { WESTID_WORKERID: "1024" }],
    [{ registry: "memory:", pool: "0-6" }, { WESTID_WORKERID: "7" }],
    [{ ordinal: true, host: "orders" }, {}],
    [{ assigner: "/nowhere.mjs" }, {}],
    [{ interface: "none0" }, {}],
    [{ registry: "oracle://ada:s3cret@host" }, {}],
    [{ unknown: 1 }, {}],
  ])("is never skipped when it is not usable: %j %j", async (options, env) => {
    Object.assign(process.env, env);
    const { message } = await refusal(options, "CONFIG_INVALID");
    expect(message).not.toContain("s3cret");
    expect(existsSync(defaultFile())).toBe(false);
  });

  it.each([null, 7, "memory:"])("needs options that are an object, not %j", async (options) => {
    await expect(snowlease(options as SnowleaseOptions)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("Expected the options to be an object") as string,
    });
  });
});

describe("a registry", () => {
  it("that is named by its URL picks any worker ID of the pool, with the options of the URL", async () => {
    const url = `sqlite:${folder}/shared.db?namespace=orders&pool=512-1023&window=3s`;
    const [one, two] = [await opened({ registry: url }), await opened({ registry: url })];
    expect([one.lease.workerId, two.lease.workerId].toSorted((a, b) => a - b)).toEqual([512, 513]);
    expect(one.lease.namespace).toBe("orders");
    expect(one.lease.until - clock.now()).toBeLessThanOrEqual(3000);
    expect(existsSync(defaultFile())).toBe(false);
  });

  it("that is named in the environment is used like one in the options", async () => {
    process.env["SNOWLEASE_REGISTRY"] = `sqlite:${folder}/env.db?layout=twitter&datacenter=3`;
    expect((await opened()).lease.workerId).toBe(96);
    expect(existsSync(join(folder, "env.db"))).toBe(true);
  });

  it("is where a number from elsewhere is claimed, too", async () => {
    const registry = memoryRegistry({ clock });
    const ids = await opened({ registry, workerId: 7, host: "db-1", ip: "10.0.0.1", instance: "a" });
    expect(await registry.worker("default", 7)).toMatchObject({
      state: "live",
      holder: { host: "db-1", ip: "10.0.0.1", pid: process.pid, instance: "a" },
    });
    const { message } = await refusal({ registry, workerId: 7, claimTimeout: 0 }, "WORKER_ID_HELD");
    expect(message).toContain(`held by db-1 (10.0.0.1), pid ${process.pid}, since `);
    const again = await refusal({ registry, workerId: 7, claimTimeout: 0, host: "db-1" }, "WORKER_ID_HELD");
    expect(again.message).toContain("Worker 7 of namespace `default` is held by this process itself, since ");
    await ids.close();
    expect(await registry.worker("default", 7)).toMatchObject({ state: "free", clean: true });
  });

  it("that was handed in stays open, after a failure too", async () => {
    const registry = countingRegistry();
    await (await snowlease({ registry, clock })).close();
    await opened({ registry, workerId: 3 });
    await refusal({ registry, workerId: 3, claimTimeout: 0 }, "WORKER_ID_HELD");
    expect(registry.closed).toBe(0);
  });

  it("that was opened is closed with the generator, and when there is none", async () => {
    const [inner, outer] = [join(folder, "inner.sock"), join(folder, "outer.sock")];
    // The daemon hangs up on nobody.
    const long = 600_000;
    const limits = { headersTimeout: long, requestTimeout: long, keepAliveTimeout: long, idleTimeout: long };
    made.push(await startDaemon({ registry: memoryRegistry({ clock }), clock, socket: inner, log: silent, limits }));
    const connections = new Set<Socket>();
    const proxy = createServer((from) => {
      connections.add(from.once("close", () => connections.delete(from)));
      const to = connect(inner);
      from.pipe(to).pipe(from);
      for (const [one, other] of [
        [from, to],
        [to, from],
      ] as const)
        one.on("error", () => other.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(outer, resolve));
    made.push({ close: async () => void proxy.close() });

    const registry = `unix:${outer}`;
    const first = await opened({ registry, workerId: 3 });
    await expect.poll(() => connections.size).toBe(1);
    await first.close();
    await expect.poll(() => connections.size).toBe(0);

    const second = await opened({ registry: `unix:${inner}`, workerId: 3 });
    await refusal({ registry, workerId: 3, claimTimeout: 0 }, "WORKER_ID_HELD");
    await refusal({ registry, layout: "twitter" }, "LAYOUT_MISMATCH");
    await expect.poll(() => connections.size).toBe(0);
    await second.close();
  });

  it("gets another layout refused", async () => {
    const registry = memoryRegistry({ clock });
    await opened({ registry });
    await refusal({ registry, layout: "twitter" }, "LAYOUT_MISMATCH");
  });

  it("whose pool is used up says so", async () => {
    const registry = memoryRegistry({ clock });
    await opened({ registry, pool: "4" });
    await refusal({ registry, pool: "4" }, "POOL_EXHAUSTED");
  });

  it("is not waited for any longer once the signal is aborted", async () => {
    const aborter = new AbortController();
    const inner = memoryRegistry({ clock });
    await opened({ registry: inner, workerId: 3 });
    const registry: Registry = {
      ...inner,
      async claim(request) {
        const answer = await inner.claim(request);
        aborter.abort(new Error("enough"));
        return answer;
      },
    };
    const waiting = snowlease({ registry, workerId: 3, claimTimeout: "1h", signal: aborter.signal, clock });
    await expect(waiting).rejects.toThrow("enough");
  });
});

describe("a lease that an assigner answers", () => {
  it("is taken as it is, and nothing else is opened", async () => {
    const registry = countingRegistry();
    const ids = await opened({ assigner: registryAssigner(registry), namespace: "orders" });
    expect(ids.lease.namespace).toBe("orders");
    expect(await registry.workers("orders", { state: "live" })).toHaveLength(1);
    expect(existsSync(defaultFile())).toBe(false);
  });

  it("comes from a registry of its own, which lives as long", async () => {
    const url = `sqlite:${folder}/own.db`;
    const ids = await opened({ registry: `sqlite:${folder}/named.db`, assigner: registryAssigner(url) });
    expect(await ids.lease.renew()).toBe(true);
    await ids.close();
  });

  it("can have one generator only", async () => {
    const { lease } = await opened({ registry: "memory:" });
    const assigner: WorkerIdAssigner = { name: "own", assign: async () => lease };
    expect((await refusal({ assigner }, "CONFIG_INVALID")).message).toContain("already has a generator");
    expect(lease.state).toBe("held");
  });
});

describe("a child of exec", () => {
  /** A lease that is lent over a socket, as `snowlease exec` does, and the environment it gives its child. */
  async function lend(): Promise<Lease> {
    const config = resolveConfig({
      options: { registry: "memory:", namespace: "orders", layout: "twitter", pool: "40-41" },
      env: {},
    });
    const lease = await openLease(config, { env: {}, argv: [], clock });
    const lender = await lendOverSocket(lease, new SharedUsageTracker(lease, false), "memory:");
    made.push(lease, { close: async () => lender[Symbol.asyncDispose]() });
    Object.assign(process.env, lender.env, workerIdVariables(lease.workerId), { WORKER_ID: String(lease.workerId) });
    return lease;
  }

  it("borrows the worker ID in the namespace of its lease", async () => {
    const lease = await lend();
    process.env["SNOWLEASE_REGISTRY"] = "sqlite:/nowhere/at/all.db";
    process.env["SNOWLEASE_POOL"] = "1-2";
    const ids = await opened({ namespace: "orders" });
    expect(ids.lease.workerId).toBe(lease.workerId);
    expect(ids.lease.layout.name).toBe("twitter");
    expect(ids.lease.until).toBeLessThanOrEqual(lease.until);
    expect(layouts.twitter.decompose(ids.next()).fields).toEqual({ datacenter: 1, worker: 8 });
  });

  it("shares with its threads what it borrows, and lends on whoever lends it", async () => {
    const lease = await lend();
    const ids = await snowlease({ namespace: "orders", shared: true, clock });
    made.push(ids);
    const thread = joinLease(ids.share(), { clock });
    made.push(thread);
    const all = await Promise.all([ids, thread].map((maker) => maker.nextAsync()));
    expect(all.map((id) => layouts.twitter.decompose(id).workerId)).toEqual([lease.workerId, lease.workerId]);
    expect(new Set(all).size).toBe(2);
    await using lender = await lendLease(ids);
    const env = Object.entries(process.env).filter(([name]) => name.startsWith("SNOWLEASE_LEASE_"));
    expect(lender.env).toEqual({ ...Object.fromEntries(env), SNOWLEASE_NAMESPACE: "orders" });
  });

  it("may name what is lent to it", async () => {
    const { workerId } = await lend();
    process.argv = [...process.argv, `-Dwestid.workerId=${workerId}`];
    const ids = await opened({ namespace: "orders", registry: "memory:", workerId, pool: "40-49", env: "WORKER_ID" });
    expect(ids.lease.workerId).toBe(workerId);
  });

  it.each<[string, SnowleaseOptions, string[], Record<string, string>]>([
    ["an option", { workerId: 99 }, [], {}],
    ["a property", { properties: { "westid.workerId": 99 } }, [], {}],
    ["an argument", {}, ["-Dwestid.workerId=99"], {}],
    ["the environment, as it was set since", {}, [], { SNOWLEASE_WORKER_ID: "99" }],
    ["a variable that it names", { env: "ORDERS_ID" }, [], { ORDERS_ID: "99" }],
  ])("that asks for another worker ID by %s is refused, and told both", async (_, options, argv, env) => {
    await lend();
    process.argv = [...process.argv, ...argv];
    Object.assign(process.env, env);
    const { message } = await refusal({ namespace: "orders", ...options }, "CONFIG_INVALID");
    expect(message).toContain("Expected `workerId` to be 40, the only one lent here, got `99`");
  });

  it("that asks for another pool or layout is refused", async () => {
    await lend();
    const { message } = await refusal({ namespace: "orders", pool: "50-51" }, "CONFIG_INVALID");
    expect(message).toContain("to be 40, the only one lent here, got `one from 50 to 51`");
    await refusal({ namespace: "orders", layout: "westid" }, "LAYOUT_MISMATCH");
  });

  it("claims for itself in a registry of its own", async () => {
    const lease = await lend();
    const registry = memoryRegistry({ clock });
    const ids = await opened({ namespace: "orders", registry, workerId: 99 });
    expect(ids.lease.workerId).toBe(99);
    expect(await registry.worker("orders", 99)).toMatchObject({ state: "live" });
    // The number that `exec` set is not meant for other registries.
    expect((await opened({ namespace: "orders", registry: memoryRegistry({ clock }) })).lease.workerId).not.toBe(
      lease.workerId,
    );
  });

  it.each([{}, { env: "WORKER_ID" }])("takes the worker ID as no wish in another namespace (%j)", async (named) => {
    await lend();
    const ids = await opened({ namespace: "invoices", registry: "memory:", ...named });
    expect(ids.lease.workerId).toBe(0);
    expect(ids.lease.layout.name).toBe("westid");
  });

  it("takes a wish of its own in another namespace", async () => {
    await lend();
    process.env["INVOICES_ID"] = "6";
    const options = { namespace: "invoices", registry: "memory:", env: "INVOICES_ID" };
    expect((await opened(options)).lease.workerId).toBe(6);
  });
});

/** For whoever needs the machine's clock. */
const realTime = { clock: systemClock, window: "2m", maxClockSkew: "10m" };

describe("processes", () => {
  it("find each other in the embedded registry, and one that ends gives its worker ID back", async () => {
    const script = join(folder, "one-id.mjs");
    writeFileSync(
      script,
      `import { snowlease } from ${JSON.stringify(pathToFileURL(resolve("dist/index.js")).href)};
      try {
        const ids = await snowlease();
        console.log(JSON.stringify({ workerId: ids.lease.workerId, id: ids.nextString() }));
        await ids.close();
      } catch ({ code, message }) {
        console.log(JSON.stringify({ code, message }));
      }`,
    );
    const mine = await opened({ properties: { "westid.workerId": 300 }, ...realTime });
    const env = {
      PATH: process.env["PATH"],
      XDG_STATE_HOME: folder,
      SNOWLEASE_WINDOW: realTime.window,
      SNOWLEASE_OPERATION_TIMEOUT: "10m",
    };
    const other = await run(process.execPath, [script, "-Dwestid.workerId=301"], { env });
    expect(JSON.parse(other.stdout)).toMatchObject({ workerId: 301 });
    const again = await run(process.execPath, [script], { env: { ...env, WESTID_WORKERID: "301" } });
    expect(JSON.parse(again.stdout)).toMatchObject({ workerId: 301 });
    const held = await run(process.execPath, [script], {
      env: { ...env, SNOWLEASE_WORKER_ID: "300", SNOWLEASE_CLAIM_TIMEOUT: "0" },
    });
    expect(JSON.parse(held.stdout)).toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringContaining(`pid ${process.pid}, since`) as string,
    });
    expect(mine.next()).toBeTypeOf("bigint");

    const byAddress = await opened(realTime);
    const second = await run(process.execPath, [script], { env: { ...env, SNOWLEASE_CLAIM_TIMEOUT: "0" } });
    expect(JSON.parse(second.stdout)).toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringMatching(
        new RegExp(
          `^Worker ${byAddress.lease.workerId} of namespace \`default\` is held by ${hostname()} \\(${hostAddress()}\\), ` +
            `pid ${process.pid}, since \\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z; .*` +
            `name a registry, as in SNOWLEASE_REGISTRY=sqlite:/var/lib/snowlease/registry\\.db, to get a free one\\.$`,
        ),
      ) as string,
    });
  });
});

describe("two calls in one process", () => {
  it("have two worker IDs, whose IDs never meet", async () => {
    const options = { registry: `sqlite:${folder}/shared.db`, ...realTime };
    const [one, two] = [await opened(options), await opened(options)];
    expect(one.lease.workerId).not.toBe(two.lease.workerId);
    const made = Array.from({ length: 5000 }, () => [one.next(), two.next()]).flat();
    expect(new Set(made).size).toBe(10_000);
  });

  it("find out when they name the same number", async () => {
    const registry = `sqlite:${folder}/shared.db`;
    await opened({ registry, workerId: 7 });
    const { message } = await refusal({ registry, workerId: 7, claimTimeout: 0 }, "WORKER_ID_HELD");
    expect(message).toContain("held by this process itself");
  });
});
