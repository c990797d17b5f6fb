import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeEach, describe, expect, test } from "vitest";
import { encodings, type EncodingName } from "../../src/id/encodings.ts";
import { defaultLayout, layouts } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

interface Worker {
  readonly workerId: number;
  readonly state: string;
  readonly until: number;
  readonly clean: boolean;
  readonly host: string;
  readonly pid: number;
}

async function workers(...args: string[]): Promise<Worker[]> {
  return JSON.parse(await sandbox.read(["workers", "--registry", sandbox.registry, "--json", ...args])) as Worker[];
}

function ids(...args: string[]): Promise<string> {
  return sandbox.read(["id", "--registry", sandbox.registry, ...args]);
}

describe("id", () => {
  test("prints 10 IDs of one worker ID, and gives that back clean", async () => {
    const made = (await ids()).trimEnd().split("\n").map(BigInt);
    expect(made).toHaveLength(10);
    expect(new Set(made).size).toBe(10);
    expect(made.every((id) => defaultLayout.decompose(id).workerId === 0)).toBe(true);
    expect(await workers()).toMatchObject([{ workerId: 0, state: "free", clean: true }]);
  });

  test("works with nothing configured, in this user's home", async () => {
    const { code, stdout, stderr } = await sandbox.run(["id", "-n", "1"]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^\d+\n$/) as string });
    expect(stderr).toMatch(/^snowlease: warning: No registry is named: [^\n]*\n$/);
    expect(sandbox.files()).toContain("home/.local/state/snowlease/registry.db");
  });

  test("warns of a window in which ms may stand for seconds", async () => {
    const args = ["id", "-n", "1", "--registry", sandbox.registry, "--window"];
    const { code, stderr } = await sandbox.run([...args, "900ms"]);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^snowlease: warning: A window of 900 ms \(--window\) is short: [^\n]*write "900s"\.\n$/);
    expect(await sandbox.run([...args, "1s"])).toMatchObject({ code: 0, stderr: "" });
    const daemon = sandbox.start(["daemon", "--registry", "memory:", "--listen", "127.0.0.1:0", "--window", "900ms"]);
    await expect.poll(() => daemon.stderr).toMatch(/^snowlease: warning: A window of 900 ms \(--window\) is short: /m);
  });

  test.each(Object.keys(encodings) as EncodingName[])("prints %s, which inspect reads", async (format) => {
    const made = (await ids("-n", "3", "--format", format)).trimEnd().split("\n");
    const inspected = JSON.parse(await sandbox.read(["inspect", "--format", format, "--json", ...made])) as {
      id: string;
    }[];
    expect(inspected.map(({ id }) => encodings[format].encode(BigInt(id)))).toEqual(made);
  });

  test("prints JSON as an array of strings, in any format", async () => {
    const decimal = JSON.parse(await ids("--format", "json", "-n", "2")) as string[];
    expect(decimal).toEqual([expect.stringMatching(/^\d+$/), expect.stringMatching(/^\d+$/)]);
    expect(JSON.parse(await ids("--json", "--format", "hex", "-n", "1"))).toEqual([
      expect.stringMatching(/^[0-9a-f]+$/),
    ]);
  });

  test("a million IDs, all different", async () => {
    const made = (await ids("-n", "1000000")).trimEnd().split("\n");
    expect(made).toHaveLength(1_000_000);
    expect(new Set(made).size).toBe(1_000_000);
  });

  test("ends quietly when nobody reads any more, and gives back", async () => {
    const running = sandbox.start(["id", "--registry", sandbox.registry, "-n", "1000000"]);
    await running.line();
    running.closeStdout();
    expect(await running.ended).toMatchObject({ code: 0, stderr: "" });
    expect(await workers()).toMatchObject([{ state: "free", clean: true }]);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGHUP", 129],
  ] as const)("gives back at %s", async (signal, code) => {
    const running = sandbox.start(["id", "--registry", sandbox.registry, "-n", "1000000"]);
    await running.line();
    running.signal(signal);
    expect(await running.ended).toMatchObject({ code, stderr: "" });
    expect(await workers()).toMatchObject([{ state: "free", clean: true }]);
  });

  test("says so when its output cannot be written", async () => {
    const script = `exec "$0" "$@" > /dev/full`;
    const args = ["-c", script, process.execPath, join(import.meta.dirname, "../../dist/cli/main.js"), "id"];
    const result = await sandbox.run([
      "exec",
      "--registry",
      sandbox.registry,
      "--",
      "sh",
      ...args,
      "--registry",
      "memory:",
    ]);
    expect(result).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^snowlease: CONFIG_INVALID: .*ENOSPC.*\n$/) as string,
    });
  });

  test("several at once share a registry without sharing an ID", async () => {
    const runs = await Promise.all([1, 2, 3].map(() => ids("-n", "20000")));
    const made = runs.flatMap((text) => text.trimEnd().split("\n"));
    expect(new Set(made).size).toBe(60_000);
  });
});

describe("inspect", () => {
  test("shows the parts of an ID", async () => {
    const id = layouts.twitter.compose({ timestamp: 1_700_000_000_123, datacenter: 3, worker: 5, sequence: 7 });
    const args = ["inspect", "--layout", "twitter", String(id)];
    const text = await sandbox.read(args);
    for (const part of [String(id), "2023-11-14T22:13:20.123Z", "DATACENTER", "SEQUENCE"]) expect(text).toContain(part);
    expect(JSON.parse(await sandbox.read([...args, "--json"]))).toEqual([
      {
        id: String(id),
        format: "decimal",
        layout: layouts.twitter.fingerprint,
        time: "2023-11-14T22:13:20.123Z",
        timestamp: 1_700_000_000_123,
        workerId: 101,
        sequence: 7,
        fields: { datacenter: 3, worker: 5 },
      },
    ]);
    expect(sandbox.files()).toEqual([]);
  });

  test("says for which encoding it took a text, unless that is decimal or named", async () => {
    const lines = async (...args: string[]): Promise<string[]> =>
      (await sandbox.read(["inspect", ...args])).trimEnd().split("\n").slice(1);
    const own = "1278549019894743040";
    expect((await lines("abc", own, "abd", "a00000000000")).slice(4)).toEqual([
      "Read as base62: abc and 1 more. --format names another encoding.",
      "Read as base36: a00000000000. --format names another encoding.",
    ]);
    expect(await lines("--format", "hex", "abc")).toEqual([expect.stringMatching(/^2748 /)]);
    expect(await lines("5")).toHaveLength(1);
    const hex = await sandbox.run(["inspect", "0x11be499ac8c00000"]);
    expect(hex).toMatchObject({ code: 2, stderr: expect.stringContaining("write hex without `0x`") as string });
  });

  test("asks for a time where the timestamp wraps", async () => {
    const timestamp = 1_700_000_000_123;
    const id = String(layouts.scene.compose({ timestamp, workerId: 7, sequence: 3 }));
    const args = ["inspect", "--layout", "scene", "--json", id];
    expect(await sandbox.run(args)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^snowlease: CONFIG_INVALID: .* every 2097152 ms; tell a time near .*\n$/,
      ) as string,
    });
    for (const at of [String(timestamp - 1000), "2023-11-14T22:20:00Z", "2023-11-14T23:20:00+01:00"]) {
      const found: unknown = JSON.parse(await sandbox.read([...args, "--at", at]));
      expect(found).toMatchObject([{ timestamp, workerId: 7, sequence: 3 }]);
    }
    for (const at of ["yesterday", "1e12", "2023-11-14 22:13:20"]) {
      expect(await sandbox.run([...args, "--at", at])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("Expected `--at` to be a time") as string,
      });
    }
  });

  test("shows the rollback bits", async () => {
    const parts = { timestamp: 1_700_000_000_123, sequence: 3 };
    const id = String(layouts.rollback.compose({ ...parts, machine: 5, process: 3, rollback: 2 }));
    const text = await sandbox.read(["inspect", "--layout", "rollback", id]);
    expect(text).toMatch(/WORKER ID +ROLLBACK +SEQUENCE +MACHINE +PROCESS\n.* 163 +2 +3 +5 +3\n/);
  });

  test("takes the layout from the environment, and from a config file", async () => {
    const layoutOf = async (env?: Record<string, string>): Promise<unknown> =>
      (JSON.parse(await sandbox.read(["inspect", "--json", "1"], { env })) as { layout: unknown }[])[0]?.layout;
    expect(await layoutOf({ SNOWLEASE_LAYOUT: "twitter" })).toBe(layouts.twitter.fingerprint);
    writeFileSync(join(sandbox.work, "snowlease.json"), '{"layout": "twitter"}');
    expect(await layoutOf()).toBe(layouts.twitter.fingerprint);
    expect(await layoutOf({ SNOWLEASE_LAYOUT: "westid" })).toBe(layouts.westid.fingerprint);
  });

  test("loads neither the schema nor a server", async () => {
    const loaded = join(sandbox.work, "loaded.json");
    const hook = join(sandbox.work, "hook.mjs");
    writeFileSync(
      hook,
      `import { appendFileSync } from "node:fs";
      export function load(url, context, next) {
        appendFileSync(${JSON.stringify(loaded)}, url + "\\n");
        return next(url, context);
      }`,
    );
    const at = JSON.stringify(pathToFileURL(hook).href);
    // Newer versions of Node have hooks of their own thread, and warn of the others.
    const register = `data:text/javascript,import{load}from${at};import node from"node:module";if("registerHooks"in node)node.registerHooks({load});else node.register(${at})`;
    await sandbox.read(["inspect", "1"], { env: { NODE_OPTIONS: `--import ${JSON.stringify(register)}` } });
    const urls = readFileSync(loaded, "utf8");
    expect(urls).toContain("cli/commands/inspect.js");
    for (const name of ["zod", "hono", "pino", "libsql", "config.js"]) expect(urls).not.toContain(name);
  });
});

describe("explain", () => {
  test("names who made an ID, and says when nobody can have", async () => {
    const id = (await ids("-n", "1", "--host", "alpha", "--instance", "checkout")).trim();
    const args = ["explain", "--registry", sandbox.registry];
    expect(await sandbox.read([...args, id])).toMatch(/held by {4}alpha \(\S+\), pid \d+, checkout; fence 1,/);
    const nobodys = String(BigInt(id) + (1n << 40n));
    expect(await sandbox.read([...args, nobodys])).toContain("no recorded holder");
    expect(JSON.parse(await sandbox.read([...args, "--json", id, nobodys]))).toMatchObject([
      { id, workerId: 0, sequence: 0, holders: [{ host: "alpha", fence: 1, end: "released" }] },
      { id: nobodys, holders: [] },
    ]);
  });
});

describe("explain of several IDs", () => {
  let made: string[];
  let args: string[];
  beforeEach(async () => {
    made = (await ids("-n", "3")).trim().split("\n");
    args = ["explain", "--registry", sandbox.registry];
  });

  function write(text: string): string[] {
    writeFileSync(join(sandbox.work, "ids.txt"), text);
    return [...args, "--file", "ids.txt"];
  }

  async function refusal(line: readonly string[], input?: string): Promise<string> {
    const { code, stdout, stderr } = await sandbox.run(line, { input });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    return stderr;
  }

  test("prints a block each, and the same for a file and for stdin", async () => {
    const text = await sandbox.read([...args, ...made]);
    expect(text.split("\n\n").map((block) => block.split("\n")[0])).toEqual(made);
    expect(text.match(/^ {2}held by/gm)).toHaveLength(3);
    expect(await sandbox.read(write(`\ufeff${made.join("\r\n\r\n")}`))).toBe(text);
    expect(await sandbox.read([...args, "--file", "-"], { input: `${made.join("\n")}\n` })).toBe(text);
  });

  test("is an array in JSON, also of one", async () => {
    const [first = ""] = made;
    const read = async (line: string[]): Promise<unknown> => JSON.parse(await sandbox.read([...line, "--json"]));
    expect(await read(write(made.join("\n")))).toMatchObject(made.map((id) => ({ id, holders: [{ fence: 1 }] })));
    expect(await read(write(first))).toEqual(await read([...args, first]));
    expect(await read([...args, first])).toMatchObject([{ id: first }]);
  });

  test.each(["zzz!", "1 2", " 1", "9223372036854775808"])("tells the place of one that is none: %j", async (bad) => {
    const [first = "", second = ""] = made;
    const file = write(`${first}\n\n${bad}\n${second}\n`);
    expect(await refusal(file)).toMatch(/^snowlease: CONFIG_INVALID: .*; correct line 3 of ids\.txt\.\n$/);
    const input = `${first}\r\n${bad}`;
    expect(await refusal([...args, "--file", "-", "--json"], input)).toMatch(/; correct line 2 of stdin\.\n$/);
    expect(await refusal([...args, first, second, bad])).toMatch(/; correct argument 3\.\n$/);
    expect(await refusal([...args, bad])).toMatch(/; correct the ID\.\n$/);
  });

  test("refuses a file without IDs, and one with too many", async () => {
    for (const text of ["", "\n\r\n\n"]) {
      expect(await refusal(write(text))).toMatch(
        /: Expected IDs in `ids\.txt` \(string\), got none; name a file of IDs\.\n$/,
      );
    }
    expect(await refusal([...args, "--file", "-"])).toContain("Expected IDs in `stdin` (string), got none;");
    const many = `${made[0]}\n`.repeat(500_000);
    expect(await refusal(write(many))).toMatch(
      /: Expected up to 10000 IDs in `ids\.txt` .*, got more; .*`snowlease audit`/,
    );
    expect(await refusal(write("7".repeat(10_000_000)))).toMatch(/; correct line 1 of ids\.txt\.\n$/);
    for (const [name, why] of [
      ["none.txt", "it does not exist"],
      [".", "it is a folder"],
    ] as const) {
      expect(await refusal([...args, "--file", name])).toContain(
        `IDs cannot be read from \`${name}\` (string): ${why};`,
      );
    }
  });

  test("refuses a file beside arguments, and nothing", async () => {
    expect(await refusal([...write("1"), "1"])).toMatch(
      /got both \(`1` \(string\) and `ids\.txt` \(string\)\); leave one out/,
    );
    expect(await refusal(args)).toMatch(/ID… or `--file FILE`, got nothing; see `snowlease explain --help`\.\n$/);
  });
});

describe("workers and release", () => {
  test("show a holder, and end its claim only by force", async () => {
    const holder = sandbox.start(["assign", "--registry", sandbox.registry, "--host", "alpha"]);
    const { workerId, until: end } = JSON.parse(await holder.line()) as { workerId: number; until: number };
    expect(await workers("--state", "live")).toMatchObject([{ workerId, host: "alpha", pid: holder.pid }]);
    expect(await workers("--state", "free")).toEqual([]);
    expect(await sandbox.read(["workers", "--registry", sandbox.registry])).toMatch(/^ +0 {2}live {3}alpha/m);

    const release = ["release", "--registry", sandbox.registry, String(workerId)];
    const refused = await sandbox.run(release);
    expect(refused).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/WORKER_ID_HELD.*alpha.*--force/) as string,
    });
    const released = JSON.parse(await sandbox.read([...release, "--force", "--json"])) as { until: number };
    expect(released).toMatchObject({ workerId, fence: 1, host: "alpha", pid: holder.pid });
    // The window stays closed: whoever held it may not have noticed yet.
    expect(released.until).toBeGreaterThanOrEqual(end);
    expect(await workers()).toMatchObject([{ workerId, state: "resting", until: released.until }]);
    await sandbox.read([...release, "--force", "--reset-window", "--i-know"]);
    expect(await workers()).toMatchObject([{ workerId, state: "free" }]);
  });

  test("refuse a worker ID that was never claimed, and a namespace that does not exist", async () => {
    await ids("-n", "1");
    for (const args of [
      ["release", "9"],
      ["workers", "--namespace", "other"],
      ["explain", "--namespace", "other", "1"],
    ]) {
      const result = await sandbox.run([...args, "--registry", sandbox.registry]);
      expect(result).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^snowlease: NOT_FOUND: .*\n$/) as string,
      });
    }
  });
});

describe("init", () => {
  test("makes a namespace once, and finds it as asked again", async () => {
    const args = [
      "init",
      "--registry",
      sandbox.registry,
      "--namespace",
      "orders",
      "--layout",
      "twitter",
      "--max-window",
      "5m",
    ];
    const made = await sandbox.read([...args, "--json"]);
    expect(JSON.parse(made)).toMatchObject([
      { namespace: "orders", layout: layouts.twitter.fingerprint, maxWindow: 300_000 },
    ]);
    expect(await sandbox.read([...args, "--json"])).toBe(made);
    const other = await sandbox.run(["id", "--registry", sandbox.registry, "--namespace", "orders"]);
    expect(other).toMatchObject({ code: 7, stderr: expect.stringMatching(/^snowlease: LAYOUT_MISMATCH: /) as string });
    const longer = await sandbox.run([...args.slice(0, -1), "6m"]);
    expect(longer).toMatchObject({ code: 2, stderr: expect.stringMatching(/maxWindow 300000 ms/) as string });
  });

  test("--print shows what it would run, and touches nothing", async () => {
    expect(await sandbox.read(["init", "--print"])).toMatch(/CREATE TABLE/i);
    expect(await sandbox.read(["init", "--print", "--registry", "memory:"])).toMatch(/^-- memory: needs no statements/);
    expect(sandbox.files()).toEqual([]);
  });
});

describe("doctor", () => {
  const statuses = (text: string): Record<string, string> => {
    const { findings } = JSON.parse(text) as { findings: { check: string; status: string }[] };
    return Object.fromEntries(findings.map(({ check, status }) => [check, status]));
  };

  test("finds nothing wrong where nothing is, and makes nothing", async () => {
    const unnamed = await sandbox.run(["doctor", "--json"]);
    // No registry is named, and its namespace does not exist: nothing is wrong, and an operator would want to know.
    expect(unnamed).toMatchObject({ code: 9, stderr: "" });
    expect(statuses(unnamed.stdout)).toMatchObject({ hosts: "warn", layout: "ok", process: "ok" });
    expect(sandbox.files()).toEqual([]);
    await ids("-n", "1");
    const { code, stdout } = await sandbox.run(["doctor", "--registry", sandbox.registry, "--json"]);
    const found = statuses(stdout);
    expect(code).toBe(Object.values(found).includes("warn") ? 9 : 0);
    expect(Object.keys(found)).toEqual(
      expect.arrayContaining(["registry", "durability", "clock", "namespace", "renewal", "pool", "file"]),
    );
    expect(Object.values(found)).not.toContain("fail");
  });

  test("exits with 1 when something is wrong, and says what", async () => {
    await ids("-n", "1");
    const args = ["doctor", "--registry", sandbox.registry, "--layout", "twitter"];
    const result = await sandbox.run(args);
    expect(result).toMatchObject({
      code: 1,
      stderr: "",
      stdout: expect.stringMatching(/^fail +namespace .*twitter|^fail +namespace/m) as string,
    });
    const away = await sandbox.run([
      "doctor",
      "--registry",
      "http://127.0.0.1:9",
      "--operation-timeout",
      "200ms",
      "--json",
    ]);
    expect(away).toMatchObject({ code: 1, stderr: "" });
    expect(statuses(away.stdout)).toMatchObject({ registry: "fail" });
  });

  test("--accept-clock leaves a working registry as it is", async () => {
    await ids("-n", "1");
    expect(
      JSON.parse(await sandbox.read(["doctor", "--registry", sandbox.registry, "--accept-clock", "--json"])),
    ).toHaveProperty("by");
    const daemon = await sandbox.run(["doctor", "--registry", "memory:", "--accept-clock"]);
    expect(daemon).toMatchObject({ code: 2, stderr: expect.stringMatching(/embedded registry/) as string });
  });
});
