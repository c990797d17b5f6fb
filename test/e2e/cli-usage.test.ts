import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { exitCodes } from "../../src/cli/exit-codes.ts";
import { errorCodes } from "../../src/id/errors.ts";
import { Sandbox } from "../support/cli.ts";

const names = Object.keys(commands);
/** Enough on the command line that nothing else is missing. */
const operands: Readonly<Record<string, string[]>> = {
  inspect: ["1"],
  explain: ["1"],
  release: ["1"],
  pin: ["1", "--reason", "reserved"],
  unpin: ["1"],
  exec: ["--", "true"],
};

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** One line on stderr with this code, nothing on stdout, nothing created. */
async function expectRefused(
  args: string[],
  message: RegExp,
  env?: Record<string, string>,
  code = "CONFIG_INVALID",
): Promise<void> {
  const before = sandbox.files();
  const result = await sandbox.run(args, { env });
  // What happened, to which value; what to do.
  expect(result.stderr).toMatch(new RegExp(`^snowlease: ${code}: [^\n]+(?:[;:?] |, since )\\S[^\n]+[.?]\n$`));
  expect(result.stderr).toMatch(message);
  expect(result).toMatchObject({ code: exitCodes[code as keyof typeof exitCodes], stdout: "" });
  expect(sandbox.files()).toEqual(before);
}

test("every code of the closed set has its exit code", () => {
  expect(Object.keys(exitCodes).toSorted()).toEqual(errorCodes.toSorted());
  const { DEFECT, ...others } = exitCodes;
  expect(Object.values(others).every((code) => code >= 2 && code <= 8)).toBe(true);
  // EX_SOFTWARE.
  expect(DEFECT).toBe(70);
});

describe("help", () => {
  test("lists every command", async () => {
    const help = await sandbox.read(["--help"]);
    for (const command of names) expect(help).toMatch(new RegExp(`^ {2}${command} +\\S`, "m"));
  });

  test.each(names)("%s --help tells its usage, its flags, and examples", async (command) => {
    const help = await sandbox.read([command, "--help"]);
    expect(help).toContain(`Usage: snowlease ${command}`);
    for (const part of ["--json", "--help", "Examples:"]) expect(help).toContain(part);
    // Each that does something with worker IDs takes options.
    if (command !== "token" && command !== "completion") expect(help).toContain("SNOWLEASE_");
    expect(await sandbox.read([command, "-h"])).toBe(help);
    expect(sandbox.files()).toEqual([]);
  });

  test("leaves out what means nothing to a command", async () => {
    expect(await sandbox.read(["exec", "--help"])).not.toContain("--on-lost");
    expect(await sandbox.read(["workers", "--help"])).not.toContain("--window");
  });

  test.each(["--version", "-v", "-V"])("%s prints the version alone", async (flag) => {
    expect(await sandbox.read([flag])).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test("no command: the ones to begin with, and how to see the rest; not a success, for scripts", async () => {
    const { code, stdout, stderr } = await sandbox.run([]);
    expect({ code, stderr }).toEqual({ code: exitCodes.CONFIG_INVALID, stderr: "" });
    const listed = [...stdout.matchAll(/^ {2}(\w+) +[A-Z].*\.$/gm)].map(([, name]) => name);
    expect(listed).toEqual(["id", "exec", "daemon", "workers", "doctor"]);
    expect(stdout).toContain(`\`snowlease help\` lists all ${names.length} commands`);
    expect(stdout.split("\n").every((line) => line.length <= 100)).toBe(true);
    expect(sandbox.files()).toEqual([]);
  });

  test("`help` and `help COMMAND` are `--help`", async () => {
    const all = await sandbox.read(["--help"]);
    for (const args of [["help"], ["-h"], ["help", "help"], ["--help", "-h"]])
      expect(await sandbox.read(args)).toBe(all);
    const one = await sandbox.read(["exec", "--help"]);
    for (const word of ["help", "--help", "-h"]) expect(await sandbox.read([word, "exec"])).toBe(one);
  });

  test("`help exec PROGRAM` runs no program", async () => {
    const help = await sandbox.read(["exec", "--help"]);
    expect(await sandbox.read(["help", "exec", "touch", "made"])).toBe(help);
    expect(sandbox.files()).toEqual([]);
  });
});

describe("what is wrong is told in one line, and nothing is created", () => {
  const cases: readonly (readonly [what: string, args: string[], message: RegExp])[] = [
    ["an unknown command", ["inspekt"], /did you mean `inspect`\?/],
    [
      "a command of other programs",
      ["serve"],
      /: Expected a command, got `serve` \(string\); did you mean `daemon`\?\n/,
    ],
    ["a misspelt command of other programs", ["statsu"], /did you mean `workers`\?/],
    ["help, misspelt", ["hlep"], /did you mean `help`\?/],
    ["the flag for help, misspelt", ["--hlep"], /before its flags, got `--hlep` \(string\); did you mean `--help`\?/],
    ["a flag before the command", ["--registry", "memory:", "id"], /before its flags, got `--registry`/],
    [
      "a command that is like none",
      ["frobnicate"],
      /: Expected a command, got `\w+` \(string\); see `snowlease --help`/,
    ],
    ["a property of every object as a command", ["constructor"], /Expected a command/],
    ["an unknown flag, near another", ["workers", "--stat", "live"], /did you mean `--state`\?/],
    ["an unknown flag, near an option", ["id", "--regsitry", "memory:"], /did you mean `--registry`\?/],
    ["the beginning of a flag", ["workers", "--reg", "memory:"], /did you mean `--registry`\?/],
    ["a flag of other programs", ["daemon", "--port", "7070"], /did you mean `--listen`\?/],
    ["a flag of other programs, in short", ["daemon", "-p", "7070"], /did you mean `--listen`\?/],
    [
      "an unknown flag that is near none",
      ["workers", "--color", "never"],
      /known flags, got `--color` \(string\); see `snowlease/,
    ],
    ["an unknown short flag", ["id", "-x"], /`-x`/],
    ["a flag of another command", ["inspect", "--registry", "memory:", "1"], /known flags, got `--registry`/],
    ["a missing value at the end", ["id", "--namespace"], /`--namespace NAME`/],
    ["a missing value before a flag", ["id", "--namespace", "--json"], /`--namespace NAME`/],
    ["a value for a flag without one", ["id", "--json=yes"], /`--json` without a value/],
    ["a flag twice", ["id", "--count", "1", "--count", "2"], /once, got it twice/],
    ["an extra argument", ["workers", "7"], /no argument, got `7`/],
    ["a second argument", ["release", "7", "8"], /no more than WORKER_ID, got `8`/],
    ["a missing argument", ["inspect"], /ID…, got nothing/],
    ["no program", ["exec", "--"], /PROGRAM/],
    ["a count of 0", ["id", "-n", "0"], /from 1 to 1000000/],
    ["a count that is no number", ["id", "-n", "1e3"], /from 1 to 1000000/],
    ["a negative count", ["id", "-n", "-5"], /from 1 to 1000000, got `-5`/],
    ["a negative ID", ["inspect", "-5"], /no negative number, got `-5`/],
    ["a flag in place of a value", ["id", "-n", "--json"], /`-n NUMBER`/],
    ["a command with an ending", ["ids"], /did you mean `id`\?/],
    ["the beginning of a command", ["mig"], /did you mean `migrate`\?/],
    ["help for no command", ["help", "exce"], /did you mean `exec`\?/],
    ["an unknown format", ["id", "--format", "base64"], /base64url/],
    ["an ID that is none", ["inspect", "zzz!"], /Expected `id`/],
    ["an ID beyond 63 bits", ["inspect", "9223372036854775808"], /at most/],
    ["an unknown layout", ["inspect", "--layout", "snow", "1"], /Expected `layout`/],
    ["an unknown state", ["workers", "--state", "dead"], /live, resting, free, pinned, foreign/],
    ["a worker ID that is none", ["release", "07"], /WORKER_ID to be an integer/],
    ["a reset without a word for it", ["release", "7", "--reset-window"], /`--reset-window` and `--i-know` together/],
    ["a word for nothing", ["release", "7", "--i-know"], /`--reset-window` and `--i-know` together/],
    ["a pin without a reason", ["pin", "7"], /`--reason TEXT`, got nothing/],
    ["a pin of no number", ["pin", "7", "x", "--reason", "reserved"], /WORKER_ID .* got `x`/],
    ["an unpin of nothing", ["unpin"], /WORKER_ID…, got nothing/],
    ["a file of IDs that is missing", ["audit", "none.txt"], /from `none\.txt` \(string\): it does not exist; name/],
    ["a file of IDs that is a folder", ["audit", "."], /it is a folder; name/],
    ["an unknown form of IDs", ["audit", "--format", "json"], /base64url/],
    ["a limit that is none", ["audit", "--limit", "all"], /from 0 to 100000/],
    ["a namespace in capitals", ["id", "--namespace", "Orders"], /\[a-z\]\[a-z0-9_\]\{0,31\}/],
    ["a registry of no kind", ["id", "--registry", "mongodb://x"], /sqlite:/],
    ["an unknown option in the URL", ["id", "--registry", "memory:?windwo=5s"], /`window`/],
    ["a window that is too short", ["id", "--registry", "memory:", "--window", "2ms"], /at least 3 ms/],
    ["a duration without a known unit", ["id", "--window", "5d"], /500ms, 30s, 2m or 1h/],
    ["a duration without a unit", ["id", "--window", "30"], /500ms, 30s, 2m or 1h, .* got `30`/],
    ["an epoch in seconds", ["id", "--layout", "timestamp:41,worker:10,sequence:12@1577836800"], /write 1577836800000/],
    ["a pool outside the layout", ["id", "--registry", "memory:", "--pool", "0-1024"], /1023/],
    ["a worker ID outside the layout", ["id", "--registry", "memory:", "--worker-id", "1024"], /from 0 to 1023/],
    ["a config file that is missing", ["id", "--config", "none.json"], /does not exist/],
    ["an address that is not loopback", ["daemon", "--registry", "memory:", "--listen", "0.0.0.0:0"], /127\.0\.0\.1/],
    ["a port that is none", ["daemon", "--registry", "memory:", "--listen", "127.0.0.1:70000"], /HOST:PORT/],
    ...["99999", "-1", "", ":7070"].map((port): (typeof cases)[number] => [
      `a port that is none: ${port}`,
      ["daemon", "--registry", "memory:", "--listen", port],
      /to be a port from 0 to 65535, or HOST:PORT, .*; correct --listen\./,
    ]),
  ];

  test.each(cases)("%s", async (_, args, message) => {
    await expectRefused(args, message);
  });

  test.each(names)("an unknown flag of %s", async (command) => {
    await expectRefused([command, "--nonsense", ...(operands[command] ?? [])], /known flags, got `--nonsense`/);
  });

  test.each([
    ["SNOWLEASE_REGISTRY", "sqlite://host/x", /no host/],
    ["SNOWLEASE_WINDOW", "soon", /SNOWLEASE_WINDOW/],
    ["SNOWLEASE_LAYOUT", "timestamp:41", /SNOWLEASE_LAYOUT/],
    ["SNOWLEASE_WORKER_ID", "abc", /SNOWLEASE_WORKER_ID/],
    ["WESTID_WORKERID", "1024", /WESTID_WORKERID/],
    ["SNOWLEASE_NAMESPACE", "", /SNOWLEASE_NAMESPACE/],
    ["SNOWLEASE_CONFIG", "/none/such.json", /does not exist/],
  ])("%s=%s in the environment", async (name, value, message) => {
    await expectRefused(["id"], message, { [name]: value });
  });

  describe("though a registry is named that does not exist yet:", () => {
    const registry = "sqlite:./new/registry.db";

    test.each([
      ["SNOWLEASE_WORKER_ID", "abc", /correct SNOWLEASE_WORKER_ID/],
      ["WESTID_WORKERID", "1024", /correct WESTID_WORKERID/],
      ["SNOWLEASE_ASSIGNER", "./none.mjs", /none\.mjs does not exist/],
    ])("%s=%s in the environment", async (name, value, message) => {
      const env = { [name]: value, SNOWLEASE_REGISTRY: registry };
      for (const args of [["id"], ["assign"], ["exec", "--", "true"]]) await expectRefused(args, message, env);
    });

    test.each([
      [
        "throws",
        '() { throw new Error("no number today"); }',
        /`\/\S+own\.mjs` failed: no number today; correct it/,
        "CONFIG_INVALID",
      ],
      ["rejects", 'async () { throw "x"; }', /failed: `x` \(string\); correct it/, "CONFIG_INVALID"],
      [
        "never answers",
        "() { return new Promise(() => {}); }",
        /within 50 ms \(operationTimeout/,
        "REGISTRY_UNAVAILABLE",
      ],
      ["answers NaN", "() { return NaN; }", /got `NaN` \(number\); correct the assigner/, "CONFIG_INVALID"],
      [
        "answers text",
        'async () { return "7"; }',
        /a Lease or undefined, got `7` \(string\); correct it/,
        "CONFIG_INVALID",
      ],
      ["answers too high a number", "() { return 1024; }", /from 0 to 1023 .*got `1024`/, "CONFIG_INVALID"],
    ])("an assigner that %s", async (_, body, message, code) => {
      const [, async = "", rest = ""] = /^(async )?(.*)$/.exec(body) ?? [];
      const text = `export default { name: "own", ${async}assign${rest} };`;
      writeFileSync(join(sandbox.work, "own.mjs"), text);
      for (const args of [["id"], ["assign"]]) {
        // All but one answer at once, however late the machine lets them be heard.
        const patience = code === "REGISTRY_UNAVAILABLE" ? "50ms" : "30s";
        const given = ["--registry", registry, "--assigner", "./own.mjs", "--operation-timeout", patience];
        await expectRefused([...args, ...given], message, {}, code);
      }
    });

    test.each([
      ["--assigner", ["./none.mjs"], /does not exist/],
      ["--ordinal", ["--host", "orders"], /to end in a number/],
      ["--window", ["121s"], /`window` to be at most 120000 ms/],
      ["--window", ["2m", "--max-window", "1m"], /`window` to be at most 60000 ms/],
    ])("%s %j", async (flag, rest, message) => {
      const given = ["--registry", registry, flag, ...rest];
      for (const args of [["id"], ["assign"], ["exec"]]) {
        await expectRefused([...args, ...given, ...(operands[args[0] ?? ""] ?? [])], message);
      }
    });

    test.each([
      ["--listen", "0.0.0.0:1", /127\.0\.0\.1/],
      ["--window", "121s", /`window` to be at most 120000 ms .*raise `maxWindow`/],
      ["--socket", "/dev/null/snowlease.sock", /Cannot listen on \/dev\/null/],
    ])("daemon %s %s", async (flag, value, message) => {
      const listen = flag === "--listen" ? [] : ["--listen", "127.0.0.1:0"];
      await expectRefused(["daemon", "--registry", registry, flag, value, ...listen], message);
    });
  });

  test("a window that an existing namespace allows is not refused", async () => {
    const made = await sandbox.read(["init", "--registry", sandbox.registry, "--max-window", "1h"]);
    // The wait is the operator's part: maxWindow + 2 x maxClockSkew.
    expect(made).toMatch(/windows of more than 10 min\. After such a loss, stop all holders, .* for 1 h 20 s\.\n$/);
    const usual = ["init", "--registry", sandbox.registry, "--namespace", "usual", "--max-window", "10m"];
    expect(await sandbox.read(usual)).toMatch(/^Namespace usual is ready .*\nWorker IDs are unique among .*\n$/);
    expect(await sandbox.read(["id", "-n", "1", "--registry", sandbox.registry, "--window", "11m"])).toMatch(/^\d+\n$/);
  });

  test.each([
    ["text that is not JSON", "{", /is not JSON \(line 1/],
    ["a list", "[]", /an array/],
    ["an unknown option", '{"windwo": "5s"}', /did you mean `window`/],
    ["a value that is wrong", '{"window": true}', /`window` in .*snowlease\.json/],
    ["bytes that are not UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), /not UTF-8/],
  ])("a config file with %s", async (_, text, message) => {
    writeFileSync(join(sandbox.work, "snowlease.json"), text);
    await expectRefused(["id"], message);
  });

  test("a config file that is a folder", async () => {
    mkdirSync(join(sandbox.work, "snowlease.json"));
    await expectRefused(["id"], /not a regular file/);
  });

  test("a registry that was never made, for those who only look", async () => {
    for (const args of [
      ["workers"],
      ["explain", "1"],
      ["release", "1", "--registry", sandbox.registry],
      ["pin", "1", "--reason", "reserved", "--registry", sandbox.registry],
      ["unpin", "1", "--registry", sandbox.registry],
      ["audit", "--registry", "sqlite:./registry.db"],
      ["doctor", "--accept-clock", "--registry", sandbox.registry],
    ]) {
      await expectRefused(args, /The registry \S+ does not exist yet/, {}, "NOT_FOUND");
    }
  });

  test("a registry that no option names, for an operator's command that writes", async () => {
    writeFileSync(join(sandbox.work, "hosts.txt"), "10.0.0.1\n");
    const plan = ["migrate", "plan", "--from", "ip", "--hosts", "hosts.txt"];
    await sandbox.read([...plan, "--registry", sandbox.registry, "--out", "plan.json"]);
    const word = ["--era", "1-5f0c2a91", "--i-know"];
    for (const args of [
      ["init"],
      ["init", "--new", "--namespace", "orders"],
      plan,
      ...["apply", "status", "finish"].map((step) => ["migrate", step, "plan.json"]),
      ["migrate", "apply", "plan.json", "--revert"],
      ["release", "1", "--force"],
      ["pin", "1", "--reason", "reserved"],
      ["unpin", "1"],
      ["quarantine", "end", ...word],
      ["separate", ...word],
      ["doctor", "--accept-clock"],
    ]) {
      const file = join(sandbox.folder, "home/.local/state/snowlease/registry.db");
      await expectRefused(
        args,
        new RegExp(`Expected a named registry, got none: .* sqlite:${file},.*\`--registry URL\``),
      );
    }
    // Each way to name one will do, that file included.
    const file = `sqlite:${join(sandbox.folder, "home/.local/state/snowlease/registry.db")}`;
    await sandbox.read(["init", "--registry", file]);
    await sandbox.read(["pin", "1", "--reason", "reserved"], { env: { SNOWLEASE_REGISTRY: file } });
    writeFileSync(join(sandbox.work, "named.json"), JSON.stringify({ registry: file }));
    await sandbox.read(["unpin", "1", "--config", "named.json"]);
  });

  test("an empty file, for those who only look: it stays empty", async () => {
    writeFileSync(join(sandbox.work, "registry.db"), "");
    await expectRefused(
      ["workers", "--registry", sandbox.registry],
      /The registry \S+ does not exist yet/,
      {},
      "NOT_FOUND",
    );
    expect(readFileSync(join(sandbox.work, "registry.db"), "utf8")).toBe("");
  });

  test("a registry that does not answer", async () => {
    const args = ["id", "--registry", "http://127.0.0.1:9", "--operation-timeout", "200ms"];
    await expectRefused(args, /127\.0\.0\.1:9/, {}, "REGISTRY_UNAVAILABLE");
  });

  test("a file that is no registry, which stays as it was", async () => {
    writeFileSync(join(sandbox.work, "registry.db"), "a diary, not a database, and longer than a header".repeat(9));
    await expectRefused(["id", "--registry", sandbox.registry], /registry\.db. is not a database/);
  });

  test("no message shows a password", async () => {
    const result = await sandbox.run([
      "id",
      "--registry",
      "http://me:s3cret@127.0.0.1:9",
      "--operation-timeout",
      "100ms",
    ]);
    expect(result.stderr).toMatch(/^snowlease: REGISTRY_UNAVAILABLE: /);
    expect(result.stderr).not.toContain("s3cret");
  });
});

describe("flags come before the environment, that before the config file, that before defaults", () => {
  async function namespace(args: string[], env?: Record<string, string>): Promise<unknown> {
    const printed = await sandbox.run(["assign", "--registry", sandbox.registry, "--once", ...args], { env });
    return (JSON.parse(printed.stdout) as { namespace: unknown }).namespace;
  }

  test("each level hides the one below", async () => {
    expect(await namespace([])).toBe("default");
    writeFileSync(join(sandbox.work, "snowlease.json"), '{"namespace": "file"}');
    expect(await namespace([])).toBe("file");
    expect(await namespace([], { SNOWLEASE_NAMESPACE: "environment" })).toBe("environment");
    expect(await namespace(["--namespace", "flag"], { SNOWLEASE_NAMESPACE: "environment" })).toBe("flag");
  });
});
