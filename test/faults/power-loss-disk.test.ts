import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { type DiskMode, LossyDisk, powerLossMissing } from "../support/power-loss.ts";

if (powerLossMissing !== undefined) console.warn(`NOT RUN: ${powerLossMissing}.`);

const text = "x".repeat(3 * 4096);
/** Each power cut loses something else. The seed and the programs determine what. */
const seeds = Array.from({ length: 10 }, (_, seed) => seed);

/** A durable file in the folder of each program. */
const kept = "kept";
const [old, whole, some, none] = ["old", "whole", "in part", "empty"];

/** A program's steps before the power loss, and all possible contents of its folder; `strict` where POSIX alone allows more. */
const programs: readonly {
  readonly title: string;
  readonly run: (folder: string) => void;
  readonly after: readonly string[];
  readonly strictly?: readonly string[];
}[] = [
  {
    title: "writes over a file",
    run: (folder) => write(join(folder, kept)),
    after: [`kept ${none}`, `kept ${some}`, `kept ${old}`, `kept ${whole}`],
  },
  { title: "writes and fsyncs", run: (folder) => write(join(folder, kept), "fsync"), after: [`kept ${whole}`] },
  { title: "writes with O_DSYNC", run: (folder) => write(join(folder, kept), "O_DSYNC"), after: [`kept ${whole}`] },
  {
    title: "maps a file that is shared, changes it, and calls msync",
    run: (folder) => map(join(folder, kept)),
    after: [`kept ${whole}`],
  },
  {
    title: "fsyncs, then appends",
    run(folder) {
      write(join(folder, kept), "fsync");
      writeFileSync(join(folder, kept), text, { flag: "a" });
    },
    after: ["kept whole and more", `kept ${whole}`],
  },
  {
    title: "makes three files",
    run(folder) {
      for (const name of ["a", "b", "c"]) writeFileSync(join(folder, name), "");
    },
    after: [
      `a ${none}, b ${none}, c ${none}, kept ${old}`,
      `a ${none}, b ${none}, kept ${old}`,
      `a ${none}, kept ${old}`,
      `kept ${old}`,
    ],
  },
  {
    title: "makes a file and fsyncs it",
    run: (folder) => write(join(folder, "new"), "fsync"),
    after: [`kept ${old}, new ${whole}`],
    strictly: [`kept ${old}`, `kept ${old}, new ${whole}`],
  },
  {
    title: "makes a file, and fsyncs it and its folder",
    run(folder) {
      write(join(folder, "new"), "fsync");
      fsync(folder);
    },
    after: [`kept ${old}, new ${whole}`],
  },
  {
    title: "makes a folder and a file in it, and fsyncs both",
    run(folder) {
      mkdirSync(join(folder, "inner"));
      write(join(folder, "inner/new"), "fsync");
      fsync(join(folder, "inner"));
    },
    after: [`kept ${old}, new ${whole}`],
    strictly: [`kept ${old}`, `kept ${old}, new ${whole}`],
  },
  {
    title: "renames a new file over one",
    run: rename,
    after: [`kept ${old}, next ${whole}`, `kept ${whole}`],
    strictly: [`kept ${old}`, `kept ${old}, next ${whole}`, `kept ${whole}`],
  },
  {
    title: "renames a new file over one, and fsyncs the folder",
    run(folder) {
      rename(folder);
      fsync(folder);
    },
    after: [`kept ${whole}`],
  },
  { title: "removes a file", run: (folder) => unlinkSync(join(folder, kept)), after: ["", `kept ${old}`] },
  {
    title: "removes a file, and fsyncs the folder",
    run(folder) {
      unlinkSync(join(folder, kept));
      fsync(folder);
    },
    after: [""],
  },
];

function write(path: string, how?: "fsync" | "O_DSYNC"): void {
  const flags = constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY;
  const file = openSync(path, how === "O_DSYNC" ? flags | constants.O_DSYNC : flags, 0o644);
  writeSync(file, text);
  if (how === "fsync") fsyncSync(file);
  closeSync(file);
}

function fsync(path: string): void {
  const file = openSync(path, "r");
  fsyncSync(file);
  closeSync(file);
}

function map(path: string): void {
  const program = [
    "import mmap, os, sys",
    "path, size = sys.argv[1], int(sys.argv[2])",
    "os.truncate(path, size)",
    "mapped = mmap.mmap(os.open(path, os.O_RDWR), size)",
    "mapped[:] = b'x' * size",
    "mapped.flush()",
  ];
  execFileSync("python3", ["-c", program.join("\n"), path, String(text.length)]);
}

function rename(folder: string): void {
  write(join(folder, "next"), "fsync");
  renameSync(join(folder, "next"), join(folder, kept));
}

/** All files of a folder and those in it, in words. */
function stateOf(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return files
    .map(({ name, parentPath }) => `${name} ${wordFor(readFileSync(join(parentPath, name), "utf8"))}`)
    .toSorted()
    .join(", ");
}

function wordFor(found: string): string {
  if (found === text) return whole;
  if (found.startsWith(text)) return "whole and more";
  return found === "" ? none : found === old ? old : some;
}

/** Cuts the power after these programs, once for each seed; each program has its own folder. Program -> the contents of its folder. */
async function outcomesOf(
  run: typeof programs,
  modes: readonly DiskMode[],
  wordsFor: (folder: string) => string = stateOf,
): Promise<ReadonlyMap<string, string[]>> {
  const outcomes = new Map(run.map(({ title }) => [title, new Set<string>()]));
  for (const seed of seeds) {
    const folder = join(mkdtempSync(join(tmpdir(), "snowlease-power-")), "data");
    for (const { title } of run) {
      mkdirSync(join(folder, title), { recursive: true });
      writeFileSync(join(folder, title, kept), old);
    }
    const disk = LossyDisk.under(folder, modes);
    try {
      await disk.mount(seed);
      for (const { title, run: work } of run) work(join(folder, title));
      await disk.cut();
      expect(() => readdirSync(folder)).toThrow(/EIO/);
      for (const { title } of run) outcomes.get(title)?.add(wordsFor(join(disk.durable, title)));
    } finally {
      await disk.end();
      rmSync(dirname(folder), { recursive: true });
    }
  }
  return new Map([...outcomes].map(([title, found]) => [title, [...found].toSorted()]));
}

describe.skipIf(powerLossMissing !== undefined)(powerLossMissing ?? "a disk that loses its power", () => {
  /** Nothing else may result; if something may be lost, some seed must lose it. */
  function expectOutcomes(found: readonly string[] = [], possible: readonly string[]): void {
    expect(possible).toEqual(expect.arrayContaining([...found]));
    expect(found.length).toBeGreaterThanOrEqual(Math.min(2, possible.length));
  }

  // Alone: an fsync makes earlier names durable, too, also those of other programs.
  test.each(programs)("a program that $title", async (program) => {
    const outcomes = await outcomesOf([program], []);
    expectOutcomes(outcomes.get(program.title), program.after);
  });

  test("in strict POSIX: a name is durable only with its folder", async () => {
    const outcomes = await outcomesOf(programs, ["strict"]);
    for (const { title, after, strictly = after } of programs) expectOutcomes(outcomes.get(title), strictly);
  });

  test("a disk that keeps the order of writes: a beginning of them survives", async () => {
    const title = "appends three times";
    const run = (folder: string): void => {
      for (const part of ["1", "2", "3"]) writeFileSync(join(folder, kept), part.repeat(1000), { flag: "a" });
    };
    // Within one page: the kernel sends each page separately.
    const sizes = [0, 1, 2, 3].map((parts) => old.length + 1000 * parts);
    const outcomes = await outcomesOf([{ title, run, after: [] }], ["ordered"], (folder) => {
      const found = readFileSync(join(folder, kept), "utf8");
      expect(found).toMatch(/^old1*2*3*$/);
      return String(found.length);
    });
    expectOutcomes(outcomes.get(title), sizes.map(String));
  });

  test("a disk that lies: fsynced data may be lost", async () => {
    const synced = programs.filter(({ title }) => /^writes (?:and fsyncs|with)|^removes a file, and/.test(title));
    const outcomes = await outcomesOf(synced, ["lies"]);
    for (const { title } of synced) expect(outcomes.get(title)).toContain(`kept ${old}`);
  });
});
