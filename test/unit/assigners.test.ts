import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { customAssigner } from "../../src/assigners/custom.ts";
import { envAssigner } from "../../src/assigners/env.ts";
import { hostAddress, ipAssigner } from "../../src/assigners/ip.ts";
import { ordinalAssigner } from "../../src/assigners/ordinal.ts";
import { propertyAssigner } from "../../src/assigners/property.ts";
import { registryAssigner } from "../../src/assigners/registry.ts";
import { type AssignOptions, type AssignRequest, firstOf, type WorkerIdAssigner } from "../../src/lease/assigner.ts";
import { systemClock } from "../../src/clock.ts";
import { type ErrorCode, SnowleaseError } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseOptions } from "../../src/lease/lease.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";

const { signal } = new AbortController();
let made = 0;

const leaseOptions: LeaseOptions = {
  namespace: "default",
  layout: layouts.westid,
  pool: { first: 10, last: 1023 },
  window: 60_000,
  claimTimeout: 0,
  maxWait: 0,
  operationTimeout: 600_000,
  reuse: "any",
  onLost: "stop",
  // A machine that is slow between two readings of its clock is no skew.
  limits: { maxClockSkew: 600_000 },
  holder: { host: "here", ip: "127.0.0.1", pid: process.pid, instance: "" },
};

function request(given: Partial<AssignRequest> = {}, options: Partial<AssignOptions> = {}): AssignRequest {
  const makeToken = (): string => String(++made).padStart(32, "0");
  return {
    namespace: "default",
    layout: layouts.westid,
    pool: layouts.westid.pool,
    fixed: (given.layout ?? layouts.westid).pool,
    registry: undefined,
    host: "orders-3",
    ...given,
    options: { ordinalBase: 0, lease: leaseOptions, clock: systemClock, makeToken, ...options },
  };
}

async function refusal(answer: Promise<unknown>, code: ErrorCode = "CONFIG_INVALID"): Promise<string> {
  const error: unknown = await answer.then(
    (value) => new Error(`answered ${String(value)}`),
    (error: unknown) => error,
  );
  if (!(error instanceof SnowleaseError) || error.code !== code) throw error;
  return error.message;
}

const unusable = [
  "abc",
  "1024",
  "",
  " 7",
  "7 ",
  "7.0",
  "0x7",
  "1e2",
  "+7",
  "-1",
  "007",
  "٧",
  "7\n",
  "9007199254740993",
];
const rule = "Expected `workerId` to be an integer from 0 to 1023 (10 bits), got ";

describe("a property", () => {
  const assign = (...argv: string[]): ReturnType<WorkerIdAssigner["assign"]> =>
    propertyAssigner({ argv }).assign(request(), signal);

  it.each(["-Dwestid.workerId=7", "-Dsnowlease.workerId=7", "--snowlease.workerId=7"])(
    "may be %s",
    async (argument) => {
      expect(await assign("run", argument, "--port=80")).toBe(7);
    },
  );

  it("is looked for in this process's arguments", async () => {
    const before = process.argv;
    try {
      process.argv = ["node", "-Dwestid.workerId=8", "-Dwestid.workerId=9"];
      expect(await propertyAssigner().assign(request(), signal)).toBe(9);
    } finally {
      process.argv = before;
    }
  });

  it("may be absent", async () => {
    expect(await assign("-Dwestid.workerIds=7", "westid.workerId=7", "--westid.workerId=7")).toBeUndefined();
    expect(await assign()).toBeUndefined();
  });

  it("of the options comes before arguments, and the one named after us first", async () => {
    const assigner = propertyAssigner({ argv: ["-Dwestid.workerId=1"] });
    const properties = { "westid.workerId": "2", other: "x" };
    expect(await assigner.assign(request({}, { properties }), signal)).toBe(2);
    const both = { ...properties, "snowlease.workerId": 3 };
    expect(await assigner.assign(request({}, { properties: both }), signal)).toBe(3);
  });

  it.each(unusable)("with the value %j is refused", async (value) => {
    expect(await refusal(assign(`-Dwestid.workerId=${value}`))).toContain(rule);
    const properties = { "westid.workerId": value };
    const message = await refusal(propertyAssigner().assign(request({}, { properties }), signal));
    expect(message).toContain(rule);
    expect(message).toContain("; correct the property `westid.workerId`.");
  });

  it.each([null, true, 1.5, -1, 1024, Number.NaN, {}, [7]])(
    "of the options with the value %j is refused",
    async (value) => {
      const properties = { "snowlease.workerId": value };
      expect(await refusal(propertyAssigner().assign(request({}, { properties }), signal))).toContain(rule);
    },
  );

  it("without a value is refused", async () => {
    expect(await refusal(assign("--snowlease.workerId", "7"))).toBe(
      `${rule}\`\` (string); correct the argument \`--snowlease.workerId=NUMBER\`.`,
    );
  });

  it("given twice has to say the same", async () => {
    expect(await assign("-Dwestid.workerId=7", "--snowlease.workerId=7")).toBe(7);
    expect(await refusal(assign("-Dwestid.workerId=7", "-Dsnowlease.workerId=8"))).toContain("7, 8; name one");
  });

  it("outside the pool is refused", async () => {
    const narrow = request({ pool: { first: 512, last: 1023 } });
    const message = await refusal(propertyAssigner({ argv: ["-Dwestid.workerId=7"] }).assign(narrow, signal));
    expect(message).toContain("to be in the pool 512-1023, got `7` (string)");
  });
});

describe("the environment", () => {
  it("has two names, ours first", async () => {
    const env = { SNOWLEASE_WORKER_ID: "1", WESTID_WORKERID: "2", WORKER_ID: "3" };
    expect(await envAssigner({ env }).assign(request(), signal)).toBe(1);
    expect(await envAssigner({ env: { ...env, SNOWLEASE_WORKER_ID: undefined } }).assign(request(), signal)).toBe(2);
    expect(await envAssigner({ env: { WORKER_ID: "3" } }).assign(request(), signal)).toBeUndefined();
  });

  it("has another name on demand, and only that", async () => {
    const env = { SNOWLEASE_WORKER_ID: "1", WORKER_ID: "3" };
    expect(await envAssigner({ env }).assign(request({}, { env: "WORKER_ID" }), signal)).toBe(3);
    expect(await envAssigner({ env, name: "WORKER_ID" }).assign(request({}, { env: "X" }), signal)).toBe(3);
    expect(await envAssigner({ env }).assign(request({}, { env: "X" }), signal)).toBeUndefined();
  });

  it("is this process's", async () => {
    process.env["SNOWLEASE_TEST_ID"] = "12";
    try {
      expect(await envAssigner({ name: "SNOWLEASE_TEST_ID" }).assign(request(), signal)).toBe(12);
    } finally {
      delete process.env["SNOWLEASE_TEST_ID"];
    }
  });

  it.each(unusable)("with the value %j is refused", async (value) => {
    const message = await refusal(envAssigner({ env: { WESTID_WORKERID: value } }).assign(request(), signal));
    expect(message).toContain(rule);
    expect(message).toContain("; correct WESTID_WORKERID.");
    const ours = { SNOWLEASE_WORKER_ID: value, WESTID_WORKERID: "7" };
    expect(await refusal(envAssigner({ env: ours }).assign(request(), signal))).toContain(
      "correct SNOWLEASE_WORKER_ID.",
    );
  });
});

describe("an ordinal", () => {
  it.each([
    ["orders-3", 0, 3],
    ["orders-0", 0, 0],
    ["eu-west-1-orders-12", 100, 112],
    ["orders-3.orders.shop-2.svc", 0, 3],
    ["orders-0", 1023, 1023],
  ])("of %s with base %d is %d", async (host, ordinalBase, workerId) => {
    expect(await ordinalAssigner().assign(request({ host }, { ordinalBase }), signal)).toBe(workerId);
  });

  it("takes its base from the call first", async () => {
    expect(await ordinalAssigner({ base: 5 }).assign(request({}, { ordinalBase: 9 }), signal)).toBe(8);
  });

  it.each(["orders", "orders-", "orders3", "orders-03", "orders-3a", "", "-", "orders-3-", "db.orders-3"])(
    "is refused where the host is called %j",
    async (host) => {
      expect(await refusal(ordinalAssigner().assign(request({ host }), signal))).toContain("to end in a number, as in");
    },
  );

  it("that does not fit is refused", async () => {
    expect(await refusal(ordinalAssigner().assign(request({}, { ordinalBase: 1021 }), signal))).toContain("got `1024`");
    const narrow = request({ pool: { first: 4, last: 9 } });
    expect(await refusal(ordinalAssigner().assign(narrow, signal))).toContain("in the pool 4-9, got `3`");
    expect(await refusal(ordinalAssigner().assign(request({ host: "orders-9999999999" }), signal))).toContain(rule);
  });
});

describe("an address", () => {
  const wide = Layout.parse("timestamp:41,worker:16,sequence:6@0");

  it.each([
    ["10.0.3.77", 845],
    ["192.168.1.255", 511],
    ["0.0.0.0", 0],
    ["255.255.255.255", 1023],
    ["2001:db8::a:3ff", 1023],
    ["2001:DB8:0:0:0:0:0:0002", 2],
    ["::", 0],
    ["::1", 1],
    ["2001:db8::", 0],
    ["1:2:3:4:5:6:7::", 0],
    ["::ffff:10.0.3.77", 845],
  ])("%s ends in %d", async (ip, workerId) => {
    expect(await ipAssigner().assign(request({}, { ip }), signal)).toBe(workerId);
    expect(await ipAssigner({ ip }).assign(request({}, { ip: "1.2.3.4" }), signal)).toBe(workerId);
  });

  it("gives as many bits as the layout has", async () => {
    const given = request({ layout: wide, pool: wide.pool }, { ip: "10.1.3.77" });
    expect(await ipAssigner().assign(given, signal)).toBe(3 * 256 + 77);
    const twitter = request({ layout: layouts.twitter, pool: layouts.twitter.pool }, { ip: "10.0.3.77" });
    expect(await ipAssigner().assign(twitter, signal)).toBe(845);
    const most = Layout.parse("timestamp:30,worker:31,sequence:2@0/100");
    const all = request({ layout: most, pool: most.pool }, { ip: "2001:db8::ffff:fffe" });
    expect(await ipAssigner().assign(all, signal)).toBe(2 ** 31 - 2);
  });

  it("outside the pool is refused", async () => {
    const narrow = request({ pool: { first: 0, last: 511 } }, { ip: "10.0.3.77" });
    expect(await refusal(ipAssigner().assign(narrow, signal))).toBe(
      "Expected `workerId` to be in the pool 0-511, got `845` (number); correct the address `10.0.3.77` (its last 10 bits), or the pool.",
    );
  });

  it("is refused where all hosts would have worker ID 0", async () => {
    const one = request({ layout: layouts.mastodon, pool: layouts.mastodon.pool }, { ip: "10.0.3.77" });
    expect(await refusal(ipAssigner().assign(one, signal))).toBe(
      "Every host has worker ID 0 in the layout timestamp:48,sequence:16@0/1, so an address cannot tell them apart; name a registry (SNOWLEASE_REGISTRY), or a layout with identity bits.",
    );
  });

  it.each(["", "host", "10.0.0", "10.0.0.256", "::g", "[::1]"])("that is %j is refused", async (ip) => {
    expect(await refusal(ipAssigner({ ip }).assign(request(), signal))).toContain("`ip` to be an IPv4 or IPv6 address");
  });

  it("is by default this host's", async () => {
    const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const ip = hostAddress();
    if (all.some(({ internal, family }) => !internal && family === "IPv4")) expect(ip).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
    const answer = await ipAssigner().assign(request(), signal);
    expect(answer).toBe(ip && (await ipAssigner({ ip }).assign(request(), signal)));
  });

  function address(
    address: string,
    internal = false,
  ): NonNullable<ReturnType<typeof networkInterfaces>[string]>[number] {
    const same = { address, internal, netmask: "", mac: "", cidr: null };
    return address.includes(":") ? { ...same, family: "IPv6", scopeid: 0 } : { ...same, family: "IPv4" };
  }

  it("is the first IPv4 that is not loopback, else the first IPv6 that is reachable from elsewhere", () => {
    const lo = [address("127.0.0.1", true), address("::1", true)];
    const six = [address("fe80::1"), address("febf::1"), address("2001:db8::5"), address("2001:db8::6")];
    expect(hostAddress(undefined, { lo, eth0: [...six, address("10.0.0.1")], eth1: [address("10.0.0.2")] })).toBe(
      "10.0.0.1",
    );
    expect(hostAddress(undefined, { lo, eth0: six })).toBe("2001:db8::5");
    expect(hostAddress(undefined, { lo, eth0: [address("fe80::1")] })).toBeUndefined();
    expect(hostAddress("eth1", { lo, eth0: [address("10.0.0.1")], eth1: [address("10.0.0.2")] })).toBe("10.0.0.2");
  });

  it("of an interface that is named has to be there", async () => {
    expect(() => hostAddress("lo", { lo: [address("127.0.0.1", true)] })).toThrow(
      "with an address that is not loopback",
    );
    expect(await refusal(ipAssigner({ interface: "none0" }).assign(request(), signal))).toContain(
      "got `none0` (string)",
    );
    expect(await refusal(ipAssigner().assign(request({}, { interface: "none0" }), signal))).toContain(
      "`interface` to be one of",
    );
  });
});

describe("an assigner of somebody's own", () => {
  let folder: string;
  beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "snowlease-assigner-"))));
  afterEach(() => rmSync(folder, { recursive: true }));

  function written(content: string, name = "assigner.mjs"): string {
    writeFileSync(join(folder, name), content);
    return join(folder, name);
  }

  it("may be an object", async () => {
    const own: WorkerIdAssigner = { name: "own", assign: async ({ host }) => host.length };
    expect(await customAssigner(own).assign(request(), signal)).toBe(8);
  });

  it("may be a module's default export", async () => {
    const file = written(`export default { name: "own", async assign({ pool }) { return pool.last; } };`);
    expect(await customAssigner(file).assign(request(), signal)).toBe(1023);
    const relative = file.replace(/^\//, "../".repeat(process.cwd().split("/").length));
    expect(await customAssigner(relative).assign(request(), signal)).toBe(1023);
  });

  it.each([
    ["export const assign = 1;", "is no WorkerIdAssigner"],
    ["export default 7;", "is no WorkerIdAssigner"],
    ["export default null;", "is no WorkerIdAssigner"],
    ["export default { assign() {} };", "is no WorkerIdAssigner"],
    ['export default { name: "own" };', "is no WorkerIdAssigner"],
    ["export default {", "cannot be loaded"],
    ['throw new Error("not today");', "cannot be loaded: not today"],
    ['import "./missing.mjs";', "cannot be loaded"],
  ])("is refused when its module is %j", async (content, message) => {
    const file = written(content);
    const said = await refusal(customAssigner(file).assign(request(), signal));
    expect(said).toContain(message);
    expect(said).toContain(file);
    expect(said).not.toContain("\n");
  });

  it("is refused when there is no such module", async () => {
    expect(await refusal(customAssigner(join(folder, "none.mjs")).assign(request(), signal))).toContain(
      "none.mjs does not exist; name the path of a module",
    );
    expect(await refusal(customAssigner(folder).assign(request(), signal))).toContain("cannot be loaded");
  });

  it("that is an object of another shape is refused", () => {
    expect(() => customAssigner({ name: "own" } as WorkerIdAssigner)).toThrow("is no WorkerIdAssigner");
  });

  it.each([
    [
      "an Error",
      (): never => {
        throw new RangeError("mine\nis broken");
      },
      "mine is broken",
    ],
    [
      "an Error without a message",
      (): never => {
        throw new RangeError();
      },
      "RangeError",
    ],
    [
      "something else",
      (): never => {
        throw Object.create(null);
      },
      "`{}` (object)",
    ],
  ])("that throws %s is told in one line, with the cause", async (_, fail, said) => {
    for (const assign of [fail, async () => fail()]) {
      const error: unknown = await customAssigner({ name: "own", assign })
        .assign(request(), signal)
        .catch((e: unknown) => e);
      expect(error).toMatchObject({ code: "CONFIG_INVALID", cause: expect.anything() as unknown });
      expect((error as Error).message).toBe(`The assigner \`own\` failed: ${said}; correct it, or leave it out.`);
    }
  });

  it("passes on the SnowleaseError that its assign throws", async () => {
    const own = new SnowleaseError("POOL_EXHAUSTED", "mine");
    const failing = customAssigner({ name: "own", assign: () => Promise.reject(own) });
    await expect(failing.assign(request(), signal)).rejects.toBe(own);
  });

  it.each(["export default { name: 'own', assign: () => new Promise(() => {}) };", "await new Promise(() => {});"])(
    "that never answers is given up after a while: %s",
    async (content) => {
      const file = written(content);
      const lease = { ...leaseOptions, operationTimeout: 20, claimTimeout: 10 };
      const message = await refusal(
        customAssigner(file).assign(request({}, { lease }), signal),
        "REGISTRY_UNAVAILABLE",
      );
      expect(message).toBe(
        `The assigner \`${file}\` did not answer within 30 ms (operationTimeout and claimTimeout); correct it, or give it more time.`,
      );
    },
  );

  it("is told when it is given up, and a lease that it answers too late is given back", async () => {
    const registry = memoryRegistry();
    let told: AbortSignal | undefined;
    const own: WorkerIdAssigner = {
      name: "own",
      async assign(asked, ended) {
        told = ended;
        await new Promise((resolve) => ended.addEventListener("abort", resolve));
        return registryAssigner(registry).assign(asked, signal);
      },
    };
    const lease = { ...leaseOptions, operationTimeout: 1 };
    await refusal(customAssigner(own).assign(request({}, { lease }), signal), "REGISTRY_UNAVAILABLE");
    expect(told?.aborted).toBe(true);
    await expect.poll(() => registry.worker("default", 10)).toMatchObject({ releasedAt: expect.any(Number) as number });
  });

  it("is waited for no longer than the caller's signal allows", async () => {
    const aborter = new AbortController();
    const never = customAssigner({ name: "own", assign: () => new Promise(() => {}) });
    const asked = never.assign(request(), aborter.signal);
    aborter.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });
});

describe("a registry", () => {
  it("gives any worker ID of the pool, and stays open when it was handed in", async () => {
    const closed: string[] = [];
    const registry = { ...memoryRegistry(), close: async () => void closed.push("closed") };
    const assigner = registryAssigner(registry);
    const [one, two] = [await assigner.assign(request(), signal), await assigner.assign(request(), signal)] as Lease[];
    expect([one?.workerId, two?.workerId]).toEqual([10, 11]);
    await one?.close();
    await two?.close();
    expect(closed).toEqual([]);
    expect(await registry.workers("default", { state: "live" })).toEqual([]);
  });

  it("may be named by its URL", async () => {
    const lease = (await registryAssigner("memory:").assign(request(), signal)) as Lease;
    expect(lease).toBeInstanceOf(Lease);
    expect(lease.workerId).toBe(10);
    await lease.close();
  });

  it.each([
    ["nowhere", "the registry URL to start with"],
    ["memory:?window=2s", "to have no query, got one with `window`"],
    ["oracle://:s3cret@host", "to end with the name of a database"],
  ])("is refused when it is named %s", async (url, message) => {
    const said = await refusal(registryAssigner(url).assign(request(), signal));
    expect(said).toContain(message);
    expect(said).not.toContain("s3cret");
  });

  it("passes on what it refuses with", async () => {
    const registry = memoryRegistry();
    const lease = { ...leaseOptions, pool: { first: 3, last: 3 } };
    const first = (await registryAssigner(registry).assign(request({}, { lease }), signal)) as Lease;
    const second = registryAssigner(registry).assign(request({}, { lease }), signal);
    expect(await refusal(second, "POOL_EXHAUSTED")).toContain("from 3 to 3");
    await first.close();
  });
});

describe("the first of several", () => {
  function answering(answer: unknown, asked: string[] = [], name = "own"): WorkerIdAssigner {
    return {
      name,
      assign: async () => {
        asked.push(name);
        return answer as number;
      },
    };
  }

  it("that knows one answers, and no later one is asked", async () => {
    const asked: string[] = [];
    const all = [answering(undefined, asked, "a"), answering(0, asked, "b"), answering(7, asked, "c")];
    expect(await firstOf(...all).assign(request(), signal)).toBe(0);
    expect(asked).toEqual(["a", "b"]);
    expect(firstOf(...all).name).toBe("a, b, c");
  });

  it("may be nobody", async () => {
    expect(await firstOf().assign(request(), signal)).toBeUndefined();
    expect(await firstOf(answering(undefined)).assign(request(), signal)).toBeUndefined();
  });

  it("may answer a lease", async () => {
    const lease = (await registryAssigner(memoryRegistry()).assign(request(), signal)) as Lease;
    expect(await firstOf(answering(lease)).assign(request(), signal)).toBe(lease);
    await lease.close();
  });

  it("that fails ends it", async () => {
    const asked: string[] = [];
    const failing: WorkerIdAssigner = { name: "failing", assign: () => Promise.reject(new Error("broken")) };
    await expect(firstOf(failing, answering(7, asked)).assign(request(), signal)).rejects.toThrow("broken");
    expect(asked).toEqual([]);
  });

  it("is not asked after the signal was aborted", async () => {
    const asked: string[] = [];
    const aborter = new AbortController();
    const aborting: WorkerIdAssigner = {
      name: "aborting",
      assign: async () => aborter.abort(new Error("enough")) as undefined,
    };
    await expect(firstOf(aborting, answering(7, asked)).assign(request(), aborter.signal)).rejects.toThrow("enough");
    expect(asked).toEqual([]);
  });

  it.each([
    [null, "`null` (null)"],
    ["7", "`7` (string)"],
    [{ password: "s3cret" }, "a value of the type object"],
    [true, "`true` (boolean)"],
    [7n, "`7n` (bigint)"],
  ])("that answers %s is refused", async (answer, got) => {
    expect(await refusal(firstOf(answering(answer)).assign(request(), signal))).toBe(
      `Expected the assigner \`own\` to answer a number, a Lease or undefined, got ${got}; correct it.`,
    );
  });

  it.each([-1, 1024, 1.5, Number.NaN, Infinity])("that answers %d is refused", async (answer) => {
    expect(await refusal(firstOf(answering(answer)).assign(request(), signal))).toContain(
      "correct the assigner `own`.",
    );
  });

  it("that answers outside the pool is refused", async () => {
    const narrow = request({ pool: { first: 8, last: 9 } });
    expect(await refusal(firstOf(answering(7)).assign(narrow, signal))).toContain("in the pool 8-9");
  });
});

describe("a number within fixed fields", () => {
  const fixed = layouts.twitter.narrow({ datacenter: 3 });
  const within = (options: Partial<AssignOptions> = {}, given: Partial<AssignRequest> = {}): AssignRequest =>
    request({ layout: layouts.twitter, pool: fixed, fixed, ...given }, options);
  const assigners: [string, (number: string) => Promise<unknown>][] = [
    ["a property", (number) => propertyAssigner({ argv: [`-Dwestid.workerId=${number}`] }).assign(within(), signal)],
    ["the environment", (number) => envAssigner({ env: { WESTID_WORKERID: number } }).assign(within(), signal)],
    ["the ordinal", (number) => ordinalAssigner().assign(within({}, { host: `orders-${number}` }), signal)],
    ["an address", (number) => ipAssigner({ ip: `10.0.0.${number}` }).assign(within(), signal)],
  ];

  it.each(assigners)("is what %s has, each another worker ID, and no other number is one", async (_, assign) => {
    const answers = new Set<unknown>();
    for (let number = 0; number < 32; number++) answers.add(await assign(String(number)));
    expect([...answers]).toEqual(Array.from({ length: 32 }, (_, number) => 96 + number));
    for (const number of [32, 64, 95, 96, 103, 127, 128, 255]) {
      expect(await refusal(assign(String(number)))).toContain(
        "an integer from 0 to 31, the number within the fixed fields",
      );
    }
  });

  it("is named together with its worker ID where it is refused", async () => {
    const whole = propertyAssigner({ argv: ["-Dwestid.workerId=103"] }).assign(within(), signal);
    expect(await refusal(whole)).toBe(
      "Expected `workerId` to be an integer from 0 to 31, the number within the fixed fields (whose worker IDs are 96-127), got `103` (string), which as a worker ID is 7 there; correct the argument `-Dwestid.workerId=NUMBER`.",
    );
    const outside = propertyAssigner({ argv: ["-Dwestid.workerId=7"] });
    expect(await refusal(outside.assign(within({}, { pool: { first: 110, last: 127 } }), signal))).toBe(
      "Expected `workerId` to be in the pool 110-127, got `7` (string), which is worker ID 103; correct the argument `-Dwestid.workerId=NUMBER`, or the pool.",
    );
  });

  it("is nothing that an assigner of one's own answers: that is a worker ID", async () => {
    const own = (answer: number): Promise<unknown> =>
      firstOf(customAssigner({ name: "own", assign: async () => answer })).assign(within(), signal);
    expect(await own(103)).toBe(103);
    expect(await refusal(own(7))).toBe(
      "Expected `workerId` to be in the pool 96-127, got `7` (number); correct the assigner `own`, or the pool.",
    );
  });
});
