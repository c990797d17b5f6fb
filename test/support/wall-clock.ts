import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { setWallClock } from "./wall-clock/setting.mjs";

const source = join(import.meta.dirname, "wall-clock/wall-clock.c");

/** Why the test can set no wall clock, or undefined. */
export const clocksMissing: string | undefined =
  process.platform !== "linux"
    ? "a wall clock is set for single programs on Linux only"
    : spawnSync("cc", ["--version"]).status === 0
      ? undefined
      : "there is no C compiler: as root, apt-get install --no-install-recommends gcc libc6-dev";

/**
 * The wall clock of some programs: set back or forward while they run, like a real step, or at another speed; the monotonic clock stays.
 * It does not reach programs that ask the kernel for the time.
 */
export class WallClock {
  readonly #path: string;

  /** @param folder for the file with its offset; default: one that is removed with the test. */
  constructor(offsetSeconds = 0, folder: string = newFolder()) {
    this.#path = join(folder, "wall-clock");
    writeFileSync(this.#path, "");
    this.set(offsetSeconds);
  }

  /** It goes on from there at its usual speed. */
  set(offsetSeconds: number): void {
    setWallClock(this.#path, offsetSeconds);
  }

  /** @param rate seconds that pass on it in a second, from what the machine's clock shows now. */
  run(rate: number): void {
    setWallClock(this.#path, 0, rate);
  }

  get environment(): Record<string, string> {
    return { LD_PRELOAD: library(), WALL_CLOCK_FILE: this.#path };
  }
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-clock-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Compiled once for each version of its source, in a folder of this user's caches. */
function library(): string {
  if (clocksMissing !== undefined) throw new Error(clocksMissing);
  const hash = createHash("sha256").update(readFileSync(source)).digest("hex").slice(0, 16);
  const folder = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "snowlease");
  const file = join(folder, `wall-clock-${hash}.so`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    const own = `${file}.${process.pid}`;
    const { status, stderr } = spawnSync("cc", ["-O2", "-Wall", "-shared", "-fPIC", "-o", own, source, "-ldl"], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`The wall clock of tests was not compiled: ${stderr}`);
    // Another test may compile it at the same time.
    renameSync(own, file);
  }
  return file;
}
