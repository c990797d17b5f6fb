import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, renameSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { userInfo } from "node:os";

const runs = (program: string, arg: string): boolean => spawnSync(program, [arg]).error === undefined;

/** Why there is no disk that can lose its power, or undefined. Under CI, no test is skipped that the machine could run. */
export const powerLossMissing: string | undefined = whyMissing();

function whyMissing(): string | undefined {
  if (!existsSync("/dev/fuse")) return "a disk that loses its power needs /dev/fuse, which this machine does not have";
  if (userInfo().uid !== 0 && !runs("fusermount3", "--version")) {
    return "a disk that loses its power is mounted by root, or by fusermount3: as root, apt-get install --no-install-recommends fuse3";
  }
  if (process.env["CI"] !== undefined) return undefined;
  const missing = process.env["POWER_LOSS_MISSING"];
  if (missing !== undefined) return missing;
  return runs("go", "version") ? undefined : "go is not installed: the disk that loses its power is built with it";
}

let built: string | undefined;

/** The program of `power-loss/main.go`, which says what survives. */
function program(): string {
  const script = join(import.meta.dirname, "../../scripts/go-programs.mjs");
  built ??= execFileSync(process.execPath, [script, "power-loss"], { encoding: "utf8" }).trim();
  return built;
}

/**
 * `strict`: names are durable only with their folder. `ordered`: of the writes to a file, a beginning survives. `lies`: no fsynced data
 * is durable.
 */
export type DiskMode = "strict" | "ordered" | "lies";

/** A folder on a disk that can lose its power. */
export class LossyDisk {
  /** The folder under the mount: its content after a cut. */
  readonly durable: string;
  readonly #folder: string;
  readonly #modes: readonly DiskMode[];
  #child: ChildProcess | undefined;
  #lines: Interface | undefined;

  private constructor(folder: string, modes: readonly DiskMode[]) {
    this.#folder = folder;
    this.#modes = modes;
    this.durable = `${folder}.disk`;
  }

  /** Puts a folder with its content on such a disk. It has power when `mount` is called. */
  static under(folder: string, modes: readonly DiskMode[] = []): LossyDisk {
    const disk = new LossyDisk(folder, modes);
    renameSync(folder, disk.durable);
    mkdirSync(folder);
    return disk;
  }

  /** `seed`: determines what the next cut destroys. */
  async mount(seed: number): Promise<void> {
    const child = spawn(program(), [this.#folder, this.durable, String(seed), ...this.#modes], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout });
    await this.#told();
  }

  /** From now on every request of a program fails. Resolves once the surviving data is in `durable`. */
  async cut(): Promise<void> {
    this.#child?.stdin?.write("cut\n");
    await this.#told();
  }

  /** After it, the folder is empty until the next mount. */
  async unmount(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.stdin?.end();
    await ended;
  }

  /** Puts the durable content in the place of the disk. */
  async end(): Promise<void> {
    await this.unmount();
    rmdirSync(this.#folder);
    renameSync(this.durable, this.#folder);
  }

  async #told(): Promise<void> {
    const [child, lines] = [this.#child, this.#lines];
    if (child === undefined || lines === undefined) throw new Error("The disk has no power.");
    const ended = once(child, "exit").then(() => {
      throw new Error("The program of the disk ended.");
    });
    ended.catch(() => undefined);
    await Promise.race([once(lines, "line"), ended]);
  }
}
