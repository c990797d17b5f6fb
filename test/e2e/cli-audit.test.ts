import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { encodings } from "../../src/id/encodings.ts";
import { layouts } from "../../src/id/layout.ts";
import { cliFile, type CliProcess, type CliResult, Sandbox, until } from "../support/cli.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

/** More IDs than are sorted in memory, in few bytes. */
const many = "1\n".repeat(2 ** 21 + 1);
const clean = {
  duplicates: 0,
  outside: null,
  foreign: null,
  pinned: null,
  beyond: 0,
  invalid: 0,
  findings: [],
  notes: [],
};

function write(name: string, text: string | Uint8Array): string {
  writeFileSync(join(sandbox.work, name), text);
  return name;
}

function counts({ stdout }: CliResult): unknown {
  return JSON.parse(stdout);
}

const audited = async (args: string[], input?: string): Promise<unknown> =>
  counts(await sandbox.run(["audit", "--json", ...args], { input }));

describe("audit", () => {
  test("finds what is in files and in stdin twice, and says where", async () => {
    write("a.txt", "11\n12\n13\n");
    write("b.txt", "14\n12\n11");
    const result = await sandbox.run(["audit", "a.txt", "-", "b.txt"], { input: "15\n12\n" });
    expect(result).toMatchObject({ code: 1, stderr: "" });
    expect(result.stdout).toBe(
      "11: 2 times: a.txt:1, b.txt:3\n12: 3 times: a.txt:2, stdin:2, b.txt:2\n" +
        "8 IDs. More than once: 2. Outside of every recorded window: not checked. Beyond the layout: 0. Lines without an ID: 0.\n" +
        "Without a registry, only duplicates are found; name one with --registry.\n",
    );
    expect(await audited(["a.txt", "-", "b.txt"], "15\n12\n")).toEqual({
      ...clean,
      ids: 8,
      duplicates: 2,
      findings: [
        { kind: "duplicate", id: "11", times: 2, places: [place("a.txt", 1), place("b.txt", 3)] },
        { kind: "duplicate", id: "12", times: 3, places: [place("a.txt", 2), place("stdin", 2), place("b.txt", 2)] },
      ],
    });
    expect(sandbox.files()).toEqual(["work/a.txt", "work/b.txt"]);
  });

  test("finds nothing wrong with what the CLI made, and with nothing", async () => {
    const ids = await sandbox.read(["id", "-n", "50000", "--registry", sandbox.registry, "--format", "base62"]);
    const args = ["audit", "--registry", sandbox.registry, "--format", "base62", write("ids.txt", ids)];
    expect(await sandbox.read(args)).toBe(
      "50000 IDs. More than once: 0. Outside of every recorded window: 0. Beyond the layout: 0. Lines without an ID: 0.\n",
    );
    expect(JSON.parse(await sandbox.read([...args, "--json"]))).toEqual({
      ...clean,
      ids: 50_000,
      outside: 0,
      foreign: 0,
      pinned: 0,
    });
    expect(JSON.parse(await sandbox.read(["audit", "--json"]))).toEqual({ ...clean, ids: 0 });
  });

  test("finds the ID that nobody who is on record can have made", async () => {
    const made = (await sandbox.read(["id", "-n", "3", "--registry", sandbox.registry])).trimEnd().split("\n");
    const early = String(BigInt(made[0] ?? "") - (60_000n << 22n));
    const stranger = String(BigInt(made[1] ?? "") + (9n << 12n));
    const args = ["audit", "--registry", sandbox.registry];
    const input = [...made, stranger, early].join("\n");
    const result = await sandbox.run(args, { input });
    expect(result).toMatchObject({ code: 1, stderr: "" });
    expect(result.stdout).toMatch(
      new RegExp(
        `^${early}: no recorded holder of worker 0 at \\S+Z: stdin:5\n${stranger}: no recorded holder .* worker 9 at \\S+Z: stdin:4\n5 IDs\\. `,
      ),
    );
    expect(await audited(args.slice(1), input)).toMatchObject({ ids: 5, duplicates: 0, outside: 2 });
  });

  test("takes the layout from the registry, and refuses another", async () => {
    const registry = ["--registry", sandbox.registry];
    await sandbox.read(["init", ...registry, "--layout", "safe53"]);
    expect(await audited(registry, `${2n ** 53n}\n`)).toMatchObject({ ids: 0, beyond: 1 });
    const other = await sandbox.run(["audit", ...registry, "--layout", "twitter"]);
    expect(other).toMatchObject({ code: 7, stderr: expect.stringMatching(/^snowlease: LAYOUT_MISMATCH: /) as string });
    expect(await audited(["--layout", "safe53"], `${2n ** 53n}\n1\n`)).toMatchObject({ ids: 1, beyond: 1 });
  });

  test("asks for a time where the timestamp wraps", async () => {
    const registry = ["--registry", sandbox.registry];
    const args = [...registry, "--layout", "scene"];
    const id = (await sandbox.read(["id", "-n", "1", ...args])).trim();
    const result = await sandbox.run(["audit", ...registry], { input: id });
    expect(result).toMatchObject({ code: 2, stderr: expect.stringMatching(/tell a time near .*\n$/) as string });
    expect(await audited([...registry, "--at", String(Date.now())], id)).toMatchObject({ ids: 1, outside: 0 });
    expect(await audited(["--layout", "scene"], id)).toMatchObject({ ids: 1, duplicates: 0 });
  });

  test("prints no more than it is told to, and counts all", async () => {
    const input = Array.from({ length: 300 }, (_, i) => `${i}\n${i}\n`).join("");
    const byDefault = await sandbox.run(["audit"], { input });
    expect(byDefault.stdout.match(/^\d+: 2 times: /gm)).toHaveLength(100);
    expect(byDefault.stdout).toContain(
      "Shown: 100 of 300 findings; --limit shows more.\n600 IDs. More than once: 300.",
    );
    expect(await audited(["--limit", "0"], input)).toMatchObject({ duplicates: 300, findings: [] });
  });

  test("ends quietly when nobody reads any more", async () => {
    const input = Array.from({ length: 50_000 }, (_, i) => `${i}\n${i}\n`).join("");
    const running = sandbox.start(["audit", "--limit", "100000", write("ids.txt", input)]);
    await running.line();
    running.closeStdout();
    expect(await running.ended).toMatchObject({ code: 1, stderr: "" });
  });
});

describe("text that audit is given", () => {
  test.each([
    ["empty", "", { ids: 0 }],
    ["of empty lines", "\n\r\n\n", { ids: 0 }],
    ["with CRLF", "1\r\n2\r\n", { ids: 2 }],
    ["without a last line end", "1\n2", { ids: 2 }],
    ["with a byte order mark", "\uFEFF1\n2\n", { ids: 2 }],
    ["with a byte order mark and one ID", "\uFEFF12", { ids: 1 }],
    ["with a comma", "1\n2,3\n4\n", { ids: 2, invalid: 1 }],
    ["with spaces", "1\n 2\n3 \n", { ids: 1, invalid: 2 }],
    ["with a line of a megabyte", `1\n${"9".repeat(1_000_000)}\n2\n`, { ids: 2, invalid: 1 }],
    ["that is one huge line", "9".repeat(3_000_000), { ids: 0, invalid: 1 }],
    ["with an ID beyond 63 bits", "9223372036854775807\n9223372036854775808\n", { ids: 1, invalid: 1 }],
  ])("%s", async (_, text, expected) => {
    const file = write("ids.txt", text);
    const results = [
      await sandbox.run(["audit", "--json", file]),
      await sandbox.run(["audit", "--json"], { input: text }),
    ];
    for (const result of results) {
      expect(result).toMatchObject({ code: "invalid" in expected ? 1 : 0, stderr: "" });
      const { findings: _, ...rest } = clean;
      expect(counts(result)).toMatchObject({ ...rest, ...expected });
    }
  });

  test.each(["utf16le", "utf16be"])("in %s is refused", async (encoding) => {
    const bytes = Buffer.from("\ufeff1\r\n2\r\n", "utf16le");
    const file = write("ids.txt", encoding === "utf16be" ? bytes.swap16() : bytes);
    expect(await sandbox.run(["audit", file])).toMatchObject({
      code: 2,
      stdout: "",
      stderr: `snowlease: CONFIG_INVALID: IDs cannot be read from \`${file}\` (string): it is UTF-16; save it as UTF-8.\n`,
    });
  });

  test("binary: its lines are told without what a terminal would obey", async () => {
    const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7919) % 256);
    const { code, stdout } = await sandbox.run(["audit", write("ids.bin", bytes)]);
    expect(code).toBe(1);
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(stdout).toMatch(/^ids\.bin:1: no ID: /);
  });

  test("a folder on stdin", async () => {
    const running = program("sh", "-c", `exec "$0" "${cliFile}" audit < .`, process.execPath);
    expect(await running.ended).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^snowlease: CONFIG_INVALID: .*`stdin`.* it is a folder; .*\n$/) as string,
    });
  });

  test.skipIf(process.getuid?.() !== 0)("a file that may not be read (needs root that gives that up)", async () => {
    for (const folder of [sandbox.folder, sandbox.work]) chmodSync(folder, 0o755);
    chmodSync(join(sandbox.work, write("ids.txt", "1\n")), 0o600);
    const nobody = ["--reuid", "65534", "--clear-groups"];
    const running = program("setpriv", ...nobody, process.execPath, cliFile, "audit", "ids.txt");
    expect(await running.ended).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/^snowlease: CONFIG_INVALID: .*`ids\.txt`.* EACCES: .*\n$/) as string,
    });
  });

  test("a file that is missing is told before others are read", async () => {
    const running = sandbox.start(["audit", "-", "none.txt"]);
    expect(await running.ended).toMatchObject({ code: 2, stderr: expect.stringContaining("`none.txt`") as string });
  });

  test("a file that grows, and one that goes, while another is read", async () => {
    expect(await program("mkfifo", "first").ended).toMatchObject({ code: 0 });
    write("second", "1\n2\n");
    for (const [change, expected] of [
      [() => write("second", "1\n2\n3\n1\n"), { code: 1, stderr: "", stdout: /"ids":5,"duplicates":1,/ }],
      [() => write("second", ""), { code: 0, stderr: "", stdout: /"ids":1,/ }],
      [
        () => rmSync(join(sandbox.work, "second")),
        { code: 2, stderr: /^snowlease: CONFIG_INVALID: .*`second`.*: it does not exist; .*\n$/, stdout: "" },
      ],
    ] as const) {
      const running = sandbox.start(["audit", "--json", "first", "second"]);
      // Opened when the other end is: by then the second file was looked at, and not opened yet.
      const first = await open(join(sandbox.work, "first"), "w");
      change();
      await first.writeFile("7\n");
      await first.close();
      const { code, stdout, stderr } = await running.ended;
      expect(code).toBe(expected.code);
      for (const [text, wanted] of [
        [stdout, expected.stdout],
        [stderr, expected.stderr],
      ] as const) {
        if (typeof wanted === "string") expect(text).toBe(wanted);
        else expect(text).toMatch(wanted);
      }
    }
  });
});

describe("what does not fit memory", () => {
  const temporary = (): string[] => readdirSync(join(sandbox.folder, "tmp"));

  test("goes to disk and is found again", async () => {
    expect(await audited([], `7\n${many}7\n`)).toMatchObject({
      ids: 2 ** 21 + 3,
      duplicates: 2,
      findings: [
        { id: "1", times: 2 ** 21 + 1 },
        { id: "7", times: 2, places: [place("stdin", 1), place("stdin", 2 ** 21 + 3)] },
      ],
    });
    expect(temporary()).toEqual([]);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGKILL", 137],
  ] as const)("is gone at %s", async (signal, code) => {
    const running = sandbox.start(["audit"]);
    running.write(many);
    const isUnnamed = (): boolean =>
      openFiles(running.pid).some((path) => /\/tmp\/snowlease-\w+\/runs \(deleted\)$/.test(path));
    // Its folder goes a moment after the file.
    await until(() => isUnnamed() && temporary().length === 0);
    running.signal(signal);
    expect(await running.ended).toMatchObject({ code, stdout: "", stderr: "" });
    expect(temporary()).toEqual([]);
  });

  test.each([
    ["is missing", "none", /ENOENT/],
    ["is a file", "file", /ENOTDIR/],
  ])("needs a folder: one that %s", async (_, name, message) => {
    write("file", "");
    const result = await sandbox.run(["audit"], { input: many, env: { TMPDIR: join(sandbox.work, name) } });
    expect(result).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(
        /^snowlease: CONFIG_INVALID: Temporary files in .*; free 12 bytes per ID there, .* TMPDIR\.\n$/,
      ) as string,
    });
    expect(result.stderr).toMatch(message);
  });

  const canMount = process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "true"]).status === 0;

  test.skipIf(!canMount)("needs room (needs root that may mount a disk)", async () => {
    const folder = join(sandbox.work, "full");
    mkdirSync(folder);
    // A mount of its own, which goes with the process.
    const script = `mount -t tmpfs -o size=1m tmpfs "${folder}" && yes 1 | head -n ${2 ** 21 + 1} | "${process.execPath}" "${cliFile}" audit`;
    const { cwd, env } = sandbox.surroundings({ TMPDIR: folder });
    const running = sandbox.started(spawn("unshare", ["--mount", "sh", "-c", script], { cwd, env }));
    expect(await running.ended).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^snowlease: CONFIG_INVALID: Temporary files in .*ENOSPC.*\n$/) as string,
    });
  });
});

test("a terminal sees how far it is, and nothing of that in the end", async () => {
  write("ids.txt", many);
  const line = `"${process.execPath}" "${cliFile}" audit ids.txt`;
  const onTerminal = program("script", "-qec", `TERM=xterm exec ${line}`, "/dev/null");
  const { stdout } = await onTerminal.ended;
  expect(stdout).toMatch(/\r\u001b\[K\[=* *\] \d+ % reading \d+ IDs\r\u001b\[K/);
  expect(stdout).toMatch(/\[=* *\] \d+ % comparing \d+ of 2097153 IDs\r\u001b\[K/);
  expect(stdout.replaceAll("\r\n", "\n")).toMatch(/\r\u001b\[K1: 2097153 times: [^\r]*\n2097153 IDs\. [^\r]*\n$/);
});

test("reads every form that it can be told", async () => {
  const parts = { timestamp: 1_700_000_000_123, workerId: 7 };
  const ids = [1, 2].map((sequence) => layouts.westid.compose({ ...parts, sequence }));
  for (const { name, encode, encodeFixed } of Object.values(encodings)) {
    const text = ids.flatMap((id) => [encode(id), encodeFixed(id)]).join("\n");
    expect(await audited(["--format", name], text)).toMatchObject({ ids: 4, duplicates: 2, invalid: 0 });
  }
});

/** Starts another program in the sandbox. */
function program(command: string, ...args: string[]): CliProcess {
  return sandbox.started(spawn(command, args, sandbox.surroundings()));
}

function place(source: string, line: number): object {
  return { source, line };
}

function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}
