import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname, tmpdir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Config, leaseDefaults, resolveConfig } from "../../src/config/config.ts";
import { optionTable } from "../../src/config/options.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";

type Given = Partial<Parameters<typeof resolveConfig>[0]>;

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "snowlease-config-"))));
afterEach(() => rmSync(folder, { recursive: true }));

function resolved(given: Given): Config {
  return resolveConfig({ env: {}, ...given });
}

function refusal(given: Given): string {
  try {
    resolved(given);
  } catch (error) {
    if (isSnowleaseError(error, "CONFIG_INVALID")) return error.message;
    throw error;
  }
  throw new Error(`accepted ${JSON.stringify(given)}`);
}

function written(content: string | Uint8Array, name = "snowlease.json"): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

describe("with nothing given", () => {
  it("the options are the defaults", () => {
    expect(resolved({ env: { HOME: "/home/ada" } })).toEqual({
      registry: {
        kind: "sqlite",
        path: "/home/ada/.local/state/snowlease/registry.db",
        text: "sqlite:/home/ada/.local/state/snowlease/registry.db",
        redacted: "sqlite:/home/ada/.local/state/snowlease/registry.db",
        parameters: {},
      },
      registryFrom: "default",
      namespace: "default",
      layout: layouts.westid,
      pool: { first: 0, last: 1023 },
      fixed: { first: 0, last: 1023 },
      window: undefined,
      claimTimeout: undefined,
      operationTimeout: 5000,
      maxWait: 500,
      maxTell: 60_000,
      mode: "wall",
      spread: 1,
      limits: {},
      reuse: "any",
      onLost: undefined,
      workerId: undefined,
      properties: undefined,
      env: undefined,
      assigner: undefined,
      ordinal: false,
      ordinalBase: 0,
      ip: undefined,
      interface: undefined,
      host: hostname(),
      instance: "",
      listen: undefined,
      socket: undefined,
      tokens: undefined,
      tlsCert: undefined,
      tlsKey: undefined,
      tlsClientCa: undefined,
      claimsPerSecond: undefined,
      insecure: false,
      sources: {},
    });
  });

  it.each([
    [{ XDG_STATE_HOME: "/state", HOME: "/home/ada" }, "/state"],
    [{ XDG_STATE_HOME: "relative", HOME: "/home/ada" }, "/home/ada/.local/state"],
    [{ XDG_STATE_HOME: "", HOME: "/home/a?b" }, "/home/a?b/.local/state"],
    [{ HOME: "" }, `${userInfo().homedir}/.local/state`],
  ])("and %j the registry is in %s", (env, state) => {
    expect(resolved({ env }).registry).toMatchObject({ kind: "sqlite", path: `${state}/snowlease/registry.db` });
  });
});

describe("precedence", () => {
  it("is program, environment, file, default", () => {
    written(JSON.stringify({ namespace: "file", maxWait: "1s", maxTell: 3, operationTimeout: 7 }));
    const env = { SNOWLEASE_NAMESPACE: "env", SNOWLEASE_MAX_WAIT: "2s" };
    const config = resolved({ flags: { namespace: "flag" }, env, cwd: folder });
    expect(config).toMatchObject({ namespace: "flag", maxWait: 2000, maxTell: 3, operationTimeout: 7, reuse: "any" });
    expect(config.sources).toEqual({
      namespace: { level: "program", text: "--namespace" },
      maxWait: { level: "environment", text: "SNOWLEASE_MAX_WAIT" },
      maxTell: { level: "file", text: `\`maxTell\` in ${join(folder, "snowlease.json")}` },
      operationTimeout: { level: "file", text: `\`operationTimeout\` in ${join(folder, "snowlease.json")}` },
    });
  });

  it("puts a URL's query behind what is given beside the URL, and before all that is weaker than the URL", () => {
    written(JSON.stringify({ namespace: "file", maxWait: 1, maxTell: 1, reuse: "never" }));
    const env = {
      SNOWLEASE_REGISTRY: "sqlite:./a.db?namespace=query&maxWait=2ms&maxTell=2ms",
      SNOWLEASE_NAMESPACE: "env",
    };
    const given = { flags: { "max-tell": "3ms" }, env, cwd: folder };
    expect(resolved(given)).toMatchObject({ namespace: "env", maxWait: 2, maxTell: 3, reuse: "never" });
  });

  it("leaves out the query of a URL that is overridden", () => {
    const env = { SNOWLEASE_REGISTRY: "sqlite:./a.db?namespace=query" };
    const config = resolved({ options: { registry: "memory:" }, env });
    expect(config).toMatchObject({ namespace: "default", registryFrom: "named", registry: { kind: "memory" } });
  });

  it("leaves out what is undefined and decides nothing of what is unique, and lets flags be that are no options", () => {
    expect(resolved({ options: { window: undefined }, flags: { json: true, namespace: undefined } }).sources).toEqual(
      {},
    );
  });

  it.each([
    "registry",
    "namespace",
    "layout",
    "pool",
    "datacenter",
    "machine",
    "process",
    "fields",
    "workerId",
    "properties",
    "env",
    "assigner",
    "ordinal",
    "ordinalBase",
    "ip",
    "interface",
  ])("leaves out no `%s` that is undefined: what is unique would be another thing", (name) => {
    expect(refusal({ options: { [name]: undefined } })).toBe(
      `Expected the option \`${name}\` to have a value, got undefined (is an environment variable unset?): other generators could then make the same IDs; set the value, or leave the option out.`,
    );
  });

  it("reads no worker ID from the environment, where an assigner does", () => {
    expect(resolved({ env: { SNOWLEASE_WORKER_ID: "abc" } }).workerId).toBeUndefined();
  });
});

describe("times", () => {
  it.each([
    [0, 0],
    [1500, 1500],
    ["1500ms", 1500],
    ["500ms", 500],
    ["2s", 2000],
    ["1m", 60_000],
    ["2h", 7_200_000],
    ["0", 0],
  ])("%j are %d ms", (claimTimeout, ms) => {
    expect(resolved({ options: { claimTimeout } }).claimTimeout).toBe(ms);
  });

  it.each([
    -1,
    1.5,
    Number.NaN,
    Infinity,
    2 ** 31,
    null,
    true,
    {},
    [],
    "",
    // Seconds, or ms?
    "30",
    "1500",
    " 1",
    "1 ",
    "1 s",
    "1.5s",
    "-1s",
    "+1s",
    "01s",
    "1e3",
    "0x10",
    "1d",
    "1S",
    "1sec",
    "1s2s",
    "s",
    "25000h",
    "99999999999",
  ])("%j are refused", (claimTimeout) => {
    expect(refusal({ options: { claimTimeout } })).toMatch(
      /^Expected `claimTimeout` to be a time with its unit, such as 500ms, .*; correct the option `claimTimeout`\.$/,
    );
  });
});

describe("a window", () => {
  const seconds = "timestamp:28,worker:10,sequence:13@1700000000000/1000";
  /** maxWindow + maxClockSkew. */
  const openTimeout = 130_000;

  function times(options: object, fixed: boolean, kind: string): Partial<ReturnType<typeof leaseDefaults>> {
    return leaseDefaults(resolved({ options }), fixed, kind);
  }

  it("is a minute where the registry picks the worker ID, and so it is for a fixed one in a shared registry", () => {
    expect(times({}, false, "sqlite")).toEqual({ window: 60_000, claimTimeout: 0, openTimeout, onLost: "switch" });
    expect(times({}, true, "daemon")).toEqual({ window: 60_000, claimTimeout: 60_000, openTimeout, onLost: "stop" });
  });

  it("may open as late as the limits allow", () => {
    expect(times({ maxWindow: "1h", maxClockSkew: "1m" }, false, "sqlite").openTimeout).toBe(61 * 60_000);
  });

  it("is 2 s for a fixed worker ID in an embedded registry, and a claim waits one", () => {
    expect(times({}, true, "sqlite")).toEqual({ window: 2000, claimTimeout: 2000, openTimeout, onLost: "stop" });
  });

  it("has at least 4 ticks by default", () => {
    expect(times({ layout: seconds }, true, "sqlite").window).toBe(4000);
  });

  it("is at most maxWindow by default", () => {
    expect(times({ maxWindow: "10s" }, false, "sqlite").window).toBe(10_000);
  });

  it("and what goes with it is what was given", () => {
    const options = { window: "3s", claimTimeout: 0, onLost: "switch" };
    expect(times(options, true, "sqlite")).toEqual({ window: 3000, claimTimeout: 0, openTimeout: 0, onLost: "switch" });
  });

  it("of half a wrap or more is refused", () => {
    expect(refusal({ options: { layout: "scene", window: 2 ** 20 } })).toBe(
      "Expected `window` to be less than 1048576 ms (half a wrap of the layout's timestamp), got `1048576` (number); correct the option `window`.",
    );
    expect(refusal({ options: { layout: "scene", maxWindow: "20m" } })).toContain(
      "`maxWindow` to be less than 1048576 ms",
    );
    const most = 2 ** 20 - 1;
    expect(resolved({ options: { layout: "scene", window: most, maxWindow: most } }).window).toBe(most);
  });

  it("shorter than 3 ticks is refused", () => {
    expect(resolved({ options: { layout: seconds, window: 3000 } }).window).toBe(3000);
    expect(refusal({ options: { window: 2 } })).toBe(
      "Expected `window` to be at least 3 ms (3 ticks of the layout), got `2` (number); correct the option `window`.",
    );
    expect(refusal({ env: { SNOWLEASE_LAYOUT: seconds, SNOWLEASE_WINDOW: "2s" } })).toContain("at least 3000 ms");
    expect(refusal({ options: { layout: seconds, maxWindow: "2s" } })).toContain(
      "Expected `maxWindow` to be at least 3000",
    );
  });

  it("longer than the longest that was given is refused", () => {
    expect(resolved({ options: { window: 60_000, maxWindow: "1m" } }).window).toBe(60_000);
    expect(refusal({ options: { maxWindow: "1m" }, env: { SNOWLEASE_WINDOW: "61s" } })).toBe(
      "Expected `window` to be at most 60000 ms (`maxWindow`), got `61000` (number); correct SNOWLEASE_WINDOW or the option `maxWindow`.",
    );
  });
});

describe("the pool", () => {
  it.each([
    [{ pool: "512-1023" }, { first: 512, last: 1023 }],
    [{ pool: { first: 3, last: 5 } }, { first: 3, last: 5 }],
    [
      { layout: "twitter", datacenter: 3 },
      { first: 96, last: 127 },
    ],
    [
      { layout: "twitter", datacenter: "3", pool: "100-200" },
      { first: 100, last: 127 },
    ],
    [
      { layout: "twitter", fields: { datacenter: 1, worker: 2 } },
      { first: 34, last: 34 },
    ],
    [
      { layout: Layout.parse("twitter"), registry: "memory:?datacenter=2" },
      { first: 64, last: 95 },
    ],
    [{ registry: "memory:?layout=twitter&datacenter=1&worker=2" }, { first: 34, last: 34 }],
    [
      { layout: "rollback", machine: 5 },
      { first: 160, last: 191 },
    ],
    [
      { layout: "rollback", machine: "5", process: 3 },
      { first: 163, last: 163 },
    ],
    [
      { registry: "memory:?layout=rollback&machine=1", process: 3 },
      { first: 35, last: 35 },
    ],
    [
      { layout: "uid-datacenter", datacenter: 2 },
      { first: 2 ** 18, last: 3 * 2 ** 17 - 1 },
    ],
    [{ registry: "memory:?worker=7" }, { first: 7, last: 7 }],
  ])("of %j is %j", (options, pool) => {
    expect(resolved({ options }).pool).toEqual(pool);
  });

  it.each([
    [
      { pool: "512-1024" },
      "`pool.last` to be an integer from 512 to 1023 (10 bits), got `1024` (number); correct the option `pool`",
    ],
    [{ pool: "5-3" }, "`pool` to be a range"],
    [{ pool: "" }, "`pool` to be a range"],
    [{ pool: 7 }, "`pool` to be a range"],
    [{ pool: { first: 1 } }, "`pool` to be a range"],
    [{ pool: { first: -1, last: 3 } }, "`pool.first`"],
    [{ datacenter: 3 }, "which has worker and no datacenter, got "],
    [{ layout: "rollback", process: 3 }, "to be the topmost of machine, process, without a gap"],
    [
      { layout: "rollback", machine: 8 },
      "`machine` to be an integer from 0 to 7 (3 bits), got `8` (number); correct the option `machine`",
    ],
    [{ registry: "memory:?layout=rollback&rollback=1" }, "There is no option `rollback`"],
    [
      { layout: "twitter", datacenter: 32 },
      "`datacenter` to be an integer from 0 to 31 (5 bits), got `32` (number); correct the option `datacenter`",
    ],
    [{ layout: "twitter", datacenter: "x" }, "`datacenter` to be an integer"],
    [{ layout: "twitter", datacenter: 3, pool: "0-9" }, "to overlap with 96-127"],
    [{ layout: "twitter", fields: { worker: 2 } }, "without a gap"],
    [{ layout: "twitter", fields: { datacentre: 2 } }, "and no datacentre, got "],
    [{ fields: { worker: "2" } }, "`fields` to be an object of integers, got a value of the type object"],
    [
      { registry: "memory:?worker=x" },
      "`worker` to be an integer from 0 to 1023 (10 bits), got `x` (string); correct the query",
    ],
    [{ registry: "memory:?worker=" }, "got `` (string)"],
    [
      { workerId: 3, pool: "5-9" },
      "`workerId` to be in the pool 5-9, got `3` (number); correct the option `workerId`, or the pool",
    ],
  ])("of %j is refused", (options, message) => {
    expect(refusal({ options })).toContain(message);
  });
});

describe("a bad value", () => {
  it.each<[object, string]>([
    [{ registry: "" }, "the registry URL to start with"],
    [
      { registry: 7 },
      "`registry` to be a registry URL such as sqlite:/var/lib/snowlease/registry.db, a registry, or a driver's ready client, got `7` (number)",
    ],
    [{ registry: null }, "got `null` (null)"],
    [{ registry: { password: "s3cret" } }, "got a value of the type object"],
    [{ registry: new Map([["password", "s3cret"]]) }, "got an object of the class `Map`; name the registry by its URL"],
    [
      { registry: { client: { password: "s3cret" } } },
      "a ready client (of ioredis, or a pool of pg or mysql2), got a value",
    ],
    [{ registry: "oracles://:s3cret@host" }, "the registry URL to start with"],
    [{ namespace: "Orders" }, "`namespace` to match [a-z][a-z0-9_]{0,31}, such as `orders`, got `Orders` (string)"],
    [{ namespace: "eu-west.orders" }, "such as `eu_west_orders`, got `eu-west.orders` (string)"],
    [{ namespace: "7up" }, "`namespace` to match [a-z][a-z0-9_]{0,31}, got `7up` (string)"],
    [{ namespace: "" }, "`namespace` to match"],
    [{ namespace: "a".repeat(33) }, "`namespace` to match"],
    [{ namespace: "orders\n" }, "`namespace` to match"],
    [{ layout: "westidd" }, "`layout` to be a preset"],
    [{ layout: "timestamp:41,worker:30,sequence:12@0" }, "`total bits`"],
    [{ layout: {} }, "`layout` to be a preset's name or a notation, got a value of the type object"],
    [{ operationTimeout: 0 }, "from 1 to"],
    [{ reuse: "some" }, "`reuse` to be one of any, never, got `some` (string)"],
    [{ onLost: "" }, "`onLost` to be one of switch, stop"],
    [{ workerId: "7.0" }, "`workerId` to be an integer from 0 to 1023 (10 bits), got `7.0` (string)"],
    [{ workerId: 1024 }, "got `1024` (number)"],
    [{ workerId: 1.5 }, "got `1.5` (number)"],
    [{ workerId: true }, "`workerId` to be a worker ID, got `true` (boolean)"],
    [{ workerId: null }, "`workerId` to be a worker ID"],
    [
      { workerId: 103, layout: "twitter", datacenter: 3 },
      "an integer from 0 to 31, the number within the fixed fields (whose worker IDs are 96-127), got `103` (number), which as a worker ID is 7 there",
    ],
    [{ env: "MY-ID" }, "`env` to be the name of an environment variable"],
    [{ env: "" }, "`env` to be the name"],
    [{ assigner: {} }, "`assigner` to be the path of a module"],
    [{ assigner: "" }, "`assigner` to be the path of a module"],
    [{ ordinal: "yes" }, "`ordinal` to be true or false, got `yes` (string)"],
    [{ ordinalBase: -1 }, "`ordinalBase` to be an integer from 0"],
    [{ ip: "10.0.0.256" }, "`ip` to be an IPv4 or IPv6 address"],
    [{ ip: "host" }, "`ip` to be an IPv4 or IPv6 address"],
    [{ interface: "" }, "`interface` to be the name"],
    [{ host: "a\nb" }, "`host` to be 1 to 255 characters"],
    [{ host: "" }, "`host` to be 1 to 255 characters"],
    [{ instance: "x".repeat(256) }, "`instance` to be 1 to 255 characters"],
    [{ properties: "westid.workerId=7" }, "`properties` to be an object"],
  ])("is refused: %j", (options, message) => {
    const said = refusal({ options });
    expect(said).toContain(message);
    expect(said).toMatch(/; correct the option `\w+`\.$|; correct the option `pool`/);
    expect(said).not.toContain("s3cret");
  });

  it.each([
    [{ flags: { "max-wait": "x" } }, "correct --max-wait."],
    [{ env: { SNOWLEASE_MAX_WAIT: "" } }, "correct SNOWLEASE_MAX_WAIT."],
    [
      { env: { SNOWLEASE_REGISTRY: "memory:?maxWait=x" } },
      "correct `maxWait` in the registry URL from SNOWLEASE_REGISTRY.",
    ],
    [{ env: { SNOWLEASE_REGISTRY: "" } }, "correct SNOWLEASE_REGISTRY."],
    [{ flags: { layout: "x" } }, "correct --layout."],
    [{ options: { registry: "memory:?pool=x" } }, "correct `pool` in the registry URL from the option `registry`."],
    [{ flags: { listen: "localhost" } }, "correct --listen."],
    [{ flags: { listen: "[::1]:70000" } }, "correct --listen."],
    ...["-1", "65536", "99999", "07070", "7070 ", "+7070", "7e3", ":7070", "a:", ""].map((listen): [Given, string] => [
      { flags: { listen } },
      "correct --listen.",
    ]),
    [
      { env: { SNOWLEASE_LISTEN: "tcp" } },
      "a port from 0 to 65535, or HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070, got",
    ],
    [
      { flags: { resp: "70000" } },
      "a port from 0 to 65535, HOST:PORT, such as 127.0.0.1:7071, or the path of a socket",
    ],
    [{ flags: { config: "" }, cwd: "/" }, "correct --config."],
    [{ env: { SNOWLEASE_LEASE_SOCKET: "", SNOWLEASE_LEASE_NAMESPACE: "default" } }, "correct SNOWLEASE_LEASE_SOCKET."],
  ])("is refused with its source: %j", (given, source) => {
    expect(refusal(given)).toContain(source);
  });

  it("is refused with the file it stands in", () => {
    const path = written('{"maxWait": "soon"}');
    expect(refusal({ cwd: folder })).toContain(`got \`soon\` (string); correct \`maxWait\` in ${path}.`);
  });

  it("is refused also where something stronger overrides it", () => {
    expect(refusal({ options: { maxWait: 1 }, env: { SNOWLEASE_MAX_WAIT: "soon" } })).toContain("SNOWLEASE_MAX_WAIT");
    expect(refusal({ options: { maxWait: 1, registry: "memory:?maxWait=soon" } })).toContain("registry URL");
  });

  it("that cannot be written as JSON is refused, too", () => {
    const circular: Record<string, unknown> = {};
    circular["self"] = circular;
    expect(refusal({ options: { registry: circular } })).toContain("type object");
    expect(refusal({ options: { maxWait: () => 1 } })).toContain("type function");
    expect(refusal({ options: { maxWait: 1n } })).toContain("`1n` (bigint)");
  });
});

describe("an unknown option", () => {
  it.each<[Given, string]>([
    [{ options: { namspace: "a" } }, "There is no option `namspace`; did you mean `namespace`? Correct the options."],
    [{ options: { listen: "a:1" } }, "There is no option `listen`; remove it from the options."],
    [{ options: { hots: "a" } }, "There is no option `hots`; did you mean `host`? Correct the options."],
    [{ options: { id: 1 } }, "There is no option `id`; remove it from the options."],
    [{ options: { workerid: 7 } }, "did you mean `workerId`"],
    [
      { env: { SNOWLEASE_REGISTRY: "memory:?windw=2s" } },
      "There is no option `windw`; did you mean `window`? Correct the query of the registry URL from SNOWLEASE_REGISTRY.",
    ],
    [{ options: { registry: "memory:?workerId=7" } }, "There is no option `workerId`; did you mean `worker`"],
    [{ options: { registry: "memory:?claim-timeout=7" } }, "did you mean `claimTimeout`"],
    [{ options: { registry: "memory:?__proto__=7" } }, "There is no option `__proto__`"],
    [{ options: { registry: "memory:?timestamp=7" } }, "There is no option `timestamp`"],
    [{ options: { registry: "memory:?constructor=7" } }, "There is no option `constructor`"],
  ])("is refused: %j", (given, message) => {
    expect(refusal(given)).toContain(message);
  });

  it.each([
    ['{"claim_timeout": 1}', "There is no option `claim_timeout`; did you mean `claimTimeout`"],
    ['{"config": "other.json"}', "There is no option `config`"],
    ['{"properties": {}}', "There is no option `properties`"],
    ['{"__proto__": {}}', "There is no option `__proto__`"],
  ])("of a config file is refused: %s", (content, message) => {
    const path = written(content);
    expect(refusal({ cwd: folder })).toMatch(new RegExp(`^${message}.*(?:\\? Correct|; remove it from) ${path}\\.$`));
  });
});

describe("a variable that begins like ours", () => {
  it.each([
    ["SNOWLEASE_REGISTRI", "SNOWLEASE_REGISTRY"],
    ["SNOWLEASE_REGISTY", "SNOWLEASE_REGISTRY"],
    ["SNOWLEASE_REGISTRY_URL", "SNOWLEASE_REGISTRY"],
    ["SNOWLEASE_WORKERID", "SNOWLEASE_WORKER_ID"],
    ["SNOWLEASE_WORKER", "SNOWLEASE_WORKER_ID"],
    ["SNOWLEASE_NAMESPCE", "SNOWLEASE_NAMESPACE"],
    ["SNOWLEASE_DATACENTRE", "SNOWLEASE_DATACENTER"],
    ["SNOWLEASE_LAYOUTS", "SNOWLEASE_LAYOUT"],
  ])("and is nearly one is refused: %s", (name, meant) => {
    expect(refusal({ env: { [name]: "1" } })).toBe(
      `There is no variable \`${name}\`; did you mean \`${meant}\`? Correct the environment.`,
    );
  });

  it.each([
    "SNOWLEASE_SERVICE_HOST",
    "SNOWLEASE_SERVICE_PORT",
    "SNOWLEASE_SERVICE_PORT_HTTP",
    "SNOWLEASE_PORT",
    "SNOWLEASE_PORT_7070_TCP",
    "SNOWLEASE_PORT_7070_TCP_PROTO",
    "SNOWLEASE_PORT_7070_TCP_PORT",
    "SNOWLEASE_PORT_7070_TCP_ADDR",
    "SNOWLEASE_PORT_53_UDP",
    "SNOWLEASE_REGISTRY_SERVICE_HOST",
    "SNOWLEASE_REGISTRY_PORT_6379_TCP_ADDR",
  ])("and that Kubernetes makes for a service passes in silence: %s", async (name) => {
    expect(await warnings(() => resolved({ env: { [name]: "tcp://10.0.0.1:7070" } }))).toEqual([]);
  });

  it("and is no other is warned of, once", async () => {
    const env = { SNOWLEASE_DASHBOARD_COLOUR: "blue" };
    const once =
      "Snowlease ignores the unknown variable `SNOWLEASE_DASHBOARD_COLOUR`; remove it, or give it another prefix.";
    const look = (): void => void [resolved({ env }), resolved({ env })];
    expect(await warnings(look)).toEqual([once]);
  });
});

/** What this process is warned of meanwhile. */
async function warnings(run: () => unknown): Promise<string[]> {
  const messages: string[] = [];
  const listen = ({ message }: Error): void => void messages.push(message);
  process.on("warning", listen);
  run();
  await new Promise(setImmediate);
  process.off("warning", listen);
  return messages;
}

describe("a config file that is found in the folder", () => {
  const refused = (env: Record<string, string> = {}): string => refusal({ env, cwd: folder });

  it("counts where its owner alone may write to it, or the group of this process", () => {
    for (const mode of [0o600, 0o644, 0o664, 0o660]) {
      chmodSync(written('{"namespace": "mine"}'), mode);
      expect(resolved({ cwd: folder }).namespace).toBe("mine");
    }
  });

  it.each([0o666, 0o646, 0o602])("is refused where every user may write to it: %o", (mode) => {
    const path = written('{"namespace": "anybody"}');
    chmodSync(path, mode);
    expect(refused()).toMatch(/snowlease\.json is writable for every user; .*chmod o-w/);
    expect(resolved({ flags: { config: path }, cwd: folder }).namespace).toBe("anybody");
  });

  it("is followed through a link to a file that counts, and refused through one that does not", () => {
    const target = written('{"namespace": "linked"}', "target.json");
    symlinkSync(target, join(folder, "snowlease.json"));
    expect(resolved({ cwd: folder }).namespace).toBe("linked");
    chmodSync(target, 0o666);
    expect(refused()).toContain("is writable for every user");
  });

  it.runIf(process.getuid?.() === 0)(
    "is refused where it is another user's, or another group's to write (needs root)",
    () => {
      const path = written('{"namespace": "theirs"}');
      chownSync(path, 1234, 0);
      expect(refused()).toMatch(/snowlease\.json belongs to another user \(uid 1234\); .*--config/);
      expect(resolved({ flags: { config: path }, cwd: folder }).namespace).toBe("theirs");
      expect(resolved({ env: { SNOWLEASE_CONFIG: path }, cwd: folder }).namespace).toBe("theirs");
      chownSync(path, 0, 1234);
      expect(resolved({ cwd: folder }).namespace).toBe("theirs");
      chmodSync(path, 0o664);
      expect(refused()).toMatch(/snowlease\.json is writable for another group \(gid 1234\); .*chmod g-w/);
    },
  );

  it("names no assigner module, unless a flag or the environment names the file", () => {
    const path = written('{"assigner": "./evil.mjs"}');
    expect(refused()).toMatch(/`assigner` in .*snowlease\.json .*--config/);
    expect(resolved({ flags: { config: path }, cwd: folder }).assigner).toBeDefined();
    expect(resolved({ env: { SNOWLEASE_CONFIG: path }, cwd: folder }).assigner).toBeDefined();
  });

  it("names no registry to which a token of the environment would be sent", () => {
    const path = written('{"registry": "http://127.0.0.1:9"}');
    const env = { SNOWLEASE_TOKEN: "s3cret-s3cret-s3cret-s3cret" };
    expect(refused(env)).toMatch(/`registry` in .*snowlease\.json .*SNOWLEASE_TOKEN/);
    expect(refused(env)).not.toContain("s3cret");
    expect(resolved({ cwd: folder }).registry).toMatchObject({ kind: "http" });
    expect(resolved({ env, flags: { config: path }, cwd: folder }).registry).toMatchObject({
      token: env.SNOWLEASE_TOKEN,
    });
    const elsewhere = { ...env, SNOWLEASE_REGISTRY: "http://127.0.0.1:7070" };
    expect(resolved({ env: elsewhere, cwd: folder }).registry).toMatchObject({ token: env.SNOWLEASE_TOKEN });
    written('{"registry": "sqlite:./registry.db"}');
    expect(resolved({ env, cwd: folder }).registry).toMatchObject({ kind: "sqlite" });
  });

  it.runIf(process.platform === "linux")("that is a pipe is refused, and not waited for", () => {
    execFileSync("mkfifo", [join(folder, "snowlease.json")]);
    expect(refused()).toContain("is not a regular file");
  });
});

describe("a config file", () => {
  it("is looked for in the folder, and may be missing there", () => {
    expect(resolved({ cwd: folder }).sources).toEqual({});
  });

  it("is the one that a flag names, else the environment", () => {
    written('{"namespace": "first"}', "1.json");
    written('{"namespace": "second"}', "2.json");
    const env = { SNOWLEASE_CONFIG: join(folder, "2.json") };
    expect(resolved({ flags: { config: "1.json" }, env, cwd: folder }).namespace).toBe("first");
    expect(resolved({ env, cwd: folder }).namespace).toBe("second");
  });

  it("is not read for the library", () => {
    expect(resolved({ env: { SNOWLEASE_CONFIG: "/nowhere" } }).namespace).toBe("default");
  });

  it("takes values of their own types", () => {
    written(
      '{"ordinal": true, "datacenter": 1, "layout": "twitter", "workerId": 8, "listen": "[::1]:0", "socket": "s"}',
    );
    expect(resolved({ cwd: folder })).toMatchObject({
      ordinal: true,
      workerId: 40,
      pool: { first: 32, last: 63 },
      listen: { host: "::1", port: 0 },
      socket: "s",
    });
  });

  it.each([
    ["-1", "listen"],
    ["7070.5", "listen"],
    ["65536", "listen"],
    ["[7070]", "listen"],
    ["true", "resp"],
  ])("takes no port that is %s", (value, option) => {
    const path = written(`{"${option}": ${value}}`);
    expect(refusal({ cwd: folder })).toContain(`Expected \`${option}\` to be a port from 0 to 65535`);
    expect(refusal({ cwd: folder })).toContain(`correct \`${option}\` in ${path}.`);
  });

  it.each<[string, string | Uint8Array, string]>([
    ["empty", "", "is not JSON"],
    ["cut off", '{\n  "maxWait": 1,\n', "is not JSON (line 3, column 1)"],
    ["with a comment", '{"maxWait": 1, // s3cret\n}', "is not JSON"],
    ["unquoted", "{registry: redis://:s3cret@h}", "is not JSON"],
    ["an array", "[]", "holds an array"],
    ["null", "null", "holds null"],
    ["text", '"x"', "holds a string"],
    ["not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "is not UTF-8"],
    ["in UTF-16", Buffer.from("\ufeff{}", "utf16le"), "is not UTF-8"],
    ["in UTF-16 without a mark", Buffer.from("{}", "utf16le"), "is not UTF-8"],
    ["too large", `{"x": "${"y".repeat(1024 * 1024)}"}`, "more than the limit of 1048576"],
  ])("that is %s is refused", (_, content, message) => {
    const path = written(content);
    const said = refusal({ cwd: folder });
    expect(said).toContain(`The config file ${path} `);
    expect(said).toContain(message);
    expect(said).not.toContain("s3cret");
  });

  it("may begin with a byte order mark", () => {
    written('\ufeff{"namespace": "orders"}');
    expect(resolved({ cwd: folder }).namespace).toBe("orders");
  });

  it("that is named has to be there, and to be a file", () => {
    mkdirSync(join(folder, "d"));
    expect(refusal({ flags: { config: "none.json" }, cwd: folder })).toContain("none.json does not exist");
    expect(refusal({ env: { SNOWLEASE_CONFIG: "d/none.json" }, cwd: folder })).toContain("d/none.json does not exist");
    expect(refusal({ flags: { config: "d" }, cwd: folder })).toContain("is not a regular file");
    mkdirSync(join(folder, "d/snowlease.json"));
    expect(refusal({ cwd: join(folder, "d") })).toContain("is not a regular file");
  });
});

describe("a child of exec", () => {
  const lent = {
    SNOWLEASE_LEASE_SOCKET: "/run/a?b.sock",
    SNOWLEASE_LEASE_NAMESPACE: "orders",
    SNOWLEASE_LEASE_LAYOUT: "twitter",
    SNOWLEASE_WORKER_ID: "7",
  };

  it("borrows in the namespace of the lease, with its layout", () => {
    const options = { namespace: "orders", maxWindow: "1m" };
    const config = resolved({ options, env: lent });
    expect(config).toMatchObject({
      registryFrom: "borrowed",
      registry: { kind: "unix", path: "/run/a?b.sock" },
      layout: layouts.twitter,
      pool: { first: 0, last: 1023 },
      limits: {},
    });
    for (const fixed of [false, true]) {
      const times = { window: 2000, claimTimeout: 2000, openTimeout: 130_000, onLost: "switch" };
      expect(leaseDefaults(config, fixed, "daemon")).toEqual(times);
    }
  });

  it("borrows where it names the registry of the lease itself, however that is written", () => {
    const registries = [
      [`sqlite:${resolve("a b.db")}`, "sqlite:./a%20b.db?namespace=orders"],
      [`sqlite:${resolve("a b.db")}`, `sqlite:///${resolve("a b.db").slice(1)}`],
      ["http://me:***@a:1,http://b:2", "http://me:s3cret@a:1,b:2"],
      ["memory:", "memory:"],
    ];
    for (const [lentFrom, registry] of registries) {
      const env = { ...lent, SNOWLEASE_LEASE_REGISTRY: lentFrom };
      expect(resolved({ options: { namespace: "orders", registry }, env }).registryFrom).toBe("borrowed");
    }
  });

  it("claims for itself in another registry that it names itself, not in one of its surroundings", () => {
    const env = { ...lent, SNOWLEASE_LEASE_REGISTRY: "sqlite:/a.db", SNOWLEASE_REGISTRY: "sqlite:/b.db" };
    expect(resolved({ options: { namespace: "orders" }, env }).registryFrom).toBe("borrowed");
    for (const registry of ["sqlite:/b.db", memoryRegistry()]) {
      const config = resolved({ options: { namespace: "orders", registry }, env });
      expect(config).toMatchObject({ registryFrom: "named", layout: layouts.westid });
    }
  });

  it("has the wishes that it utters itself, and none of its surroundings", () => {
    const env = {
      ...lent,
      SNOWLEASE_POOL: "1-2",
      SNOWLEASE_ORDINAL: "true",
      SNOWLEASE_ASSIGNER: "a.js",
      SNOWLEASE_ENV: "X",
    };
    const none = {
      pool: layouts.twitter.pool,
      workerId: undefined,
      ordinal: false,
      assigner: undefined,
      env: undefined,
    };
    expect(resolved({ options: { namespace: "orders" }, env })).toMatchObject(none);
    const wishes = { workerId: 9, ordinal: true, assigner: "b.js", env: "Y" };
    const config = resolved({ options: { namespace: "orders", pool: "7-9", ...wishes }, env });
    expect(config).toMatchObject({ registryFrom: "borrowed", pool: { first: 7, last: 9 }, ...wishes });
  });

  it("keeps a layout that it names", () => {
    const options = { namespace: "orders", layout: "westid" };
    expect(resolved({ options, env: lent })).toMatchObject({ registryFrom: "borrowed", layout: layouts.westid });
  });

  it("borrows where it names no namespace, whatever that of the lease is", () => {
    expect(resolved({ env: lent })).toMatchObject({ registryFrom: "borrowed", namespace: "orders" });
    const named = { ...lent, SNOWLEASE_LEASE_REGISTRY: "memory:" };
    expect(resolved({ options: { registry: "memory:" }, env: named })).toMatchObject({ registryFrom: "borrowed" });
  });

  it("that names another namespace claims it in a registry that is named, and in no other", () => {
    const options = { namespace: "audit" };
    expect(refusal({ options, env: lent })).toBe(
      "This process was started with a lease of namespace `orders` to borrow, and asks for namespace `audit` without a registry; " +
        "leave the option `namespace` out to borrow that lease, or name the registry to lease from (SNOWLEASE_REGISTRY).",
    );
    expect(refusal({ env: { ...lent, SNOWLEASE_NAMESPACE: "audit" } })).toContain("leave SNOWLEASE_NAMESPACE out");
    for (const given of [
      { options: { ...options, registry: "memory:" }, env: lent },
      { options, env: { ...lent, SNOWLEASE_REGISTRY: "memory:" } },
    ]) {
      const own = { registryFrom: "named", registry: { kind: "memory" }, namespace: "audit", layout: layouts.westid };
      expect(resolved(given)).toMatchObject(own);
    }
  });

  it("has the layout of the lease, not that of its surroundings, which a flag of `exec` may have overridden", () => {
    const env = { ...lent, SNOWLEASE_LAYOUT: "westid" };
    expect(resolved({ env })).toMatchObject({ registryFrom: "borrowed", layout: layouts.twitter });
  });
});

describe("a process that borrows of a daemon", () => {
  it("says so by an option, or in the URL", () => {
    const registry = "unix:/run/snowlease/daemon.sock";
    expect(resolved({ options: { registry, borrow: true } }).borrow).toBe(true);
    expect(resolved({ options: { registry: `${registry}?borrow=true` } }).borrow).toBe(true);
    expect(resolved({ options: { registry } }).borrow).toBeUndefined();
    const config = resolved({ options: { registry: memoryRegistry(), borrow: true } });
    expect(leaseDefaults(config, false, "daemon")).toMatchObject({
      window: 2000,
      onLost: "switch",
      claimTimeout: 15_000,
    });
  });

  it.each<[string, object, string]>([
    ["without a registry", {}, "one daemon's address"],
    ["of a store", { registry: "redis://127.0.0.1" }, "one daemon's address"],
    ["of several daemons", { registry: "http://a:7070,http://b:7070" }, "one daemon's address"],
    ["ahead of the clock", { registry: "http://a:7070", mode: "lead" }, "`mode`"],
    ["with a spread", { registry: "http://a:7070", spread: 4 }, "`spread`"],
    ["with a worker ID", { registry: "http://a:7070", workerId: 3 }, "`workerId`"],
    ["with a pool", { registry: "http://a:7070", pool: "0-3" }, "`pool`"],
    ["with a worker ID that was never used", { registry: "http://a:7070", reuse: "never" }, "`reuse`"],
  ])("is refused %s", (_, options, said) => {
    const message = refusal({ options: { ...options, borrow: true } });
    expect(message).toContain(said);
    expect(message).toContain("the option `borrow`");
  });
});

describe("the table of options", () => {
  it("has for each a flag and a name in the environment that it is read by", () => {
    for (const { flag, env, scopes } of optionTable) {
      expect(flag === undefined).toBe(!scopes.some((scope) => scope === "cli" || scope === "daemon"));
      expect(env).toBe(flag && `SNOWLEASE_${flag.slice(2).replaceAll("-", "_").toUpperCase()}`);
    }
    expect(new Set(optionTable.map(({ name }) => name)).size).toBe(optionTable.length);
  });

  it("reads a flag by its name, and its value as text", () => {
    const flags = { "claim-timeout": "2s", ordinal: true, registry: "memory:", listen: "0.0.0.0:80" };
    expect(resolved({ flags })).toMatchObject({
      claimTimeout: 2000,
      ordinal: true,
      registryFrom: "named",
      listen: { host: "0.0.0.0", port: 80 },
    });
  });

  it.each([0, 1, 7070, 65_535])("takes a port alone as one of 127.0.0.1: %d", (port) => {
    const place = { host: "127.0.0.1", port };
    expect(resolved({ flags: { listen: `${port}`, resp: `${port}` } })).toMatchObject({ listen: place, resp: place });
    expect(resolved({ env: { SNOWLEASE_LISTEN: `${port}` } })).toMatchObject({ listen: place });
    written(`{"listen": ${port}, "resp": ${port}}`);
    expect(resolved({ cwd: folder })).toMatchObject({ listen: place, resp: place });
  });

  it("of one server is refused as a list, wherever it is given", () => {
    const list = "redis://ada:s3cret@h1,h2";
    written(JSON.stringify({ registry: list }));
    const places = [{ options: { registry: list } }, { flags: { registry: list } }, { cwd: folder }];
    for (const given of [...places, { env: { SNOWLEASE_REGISTRY: list } }]) {
      const said = refusal(given);
      expect(said).toContain("to name one server, because several would grant the same worker IDs");
      expect(said).not.toContain("s3cret");
    }
  });

  it("takes a ready registry", () => {
    const registry = memoryRegistry();
    expect(resolved({ options: { registry } })).toMatchObject({ registry, registryFrom: "named" });
  });
});

describe("a token for a daemon", () => {
  it("goes with the address of a daemon, and with no other registry", () => {
    const env = { SNOWLEASE_TOKEN: "s3cret" };
    for (const registry of ["http://host:1", "unix:/run/s"]) {
      expect(resolved({ env: { ...env, SNOWLEASE_REGISTRY: registry } }).registry).toMatchObject({ token: "s3cret" });
      expect(resolved({ options: { registry: `${registry}?token=s3cret` } }).registry).toMatchObject({
        token: "s3cret",
      });
    }
    expect(resolved({ env: { ...env, SNOWLEASE_REGISTRY: "memory:" } }).registry).not.toHaveProperty("token");
  });

  it("is in no message, and in no text that is shown", () => {
    expect(refusal({ env: { SNOWLEASE_TOKEN: "s3cret text" } })).toBe(
      "Expected `token` to be 1 to 1024 visible ASCII characters, got another text; correct SNOWLEASE_TOKEN.",
    );
    const { registry, sources } = resolved({ options: { registry: "http://host:1?token=s3cret" } });
    if ("claim" in registry) throw new TypeError("It was given as a URL.");
    expect(registry.redacted + registry.text + JSON.stringify(sources)).not.toContain("s3cret");
  });
});
