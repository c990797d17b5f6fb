import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type WallClock, withoutSnowlease } from "../test/support/holder.ts";
import { wallClock } from "./clock.ts";

/** How the holders of a run make IDs. */
export interface CrewOptions {
  readonly size: number;
  /** A module beside holder.mjs. */
  readonly maker: string;
  /** What a holder passes to snowlease(). */
  optionsOf(holder: number): object;
  /** For the logs. */
  readonly folder: string;
}

/** So many IDs are made at a time, and then none for so many ms: two that have one worker ID soon meet in a tick. */
const [bulk, pause] = [256, 3];
/** For a holder that was asked to end, ms. */
const patience = 10_000;
const lookEvery = 50;

/** The holders of a run: processes that follow each other in so many places. */
export class Crew {
  readonly #options: CrewOptions;
  readonly #places: readonly Place[];

  constructor(options: CrewOptions) {
    this.#options = options;
    this.#places = Array.from({ length: options.size }, (_, holder) => new Place(holder, options));
  }

  /** Where the logs of each life are, without `.ids` and `.facts`. */
  get logs(): readonly string[] {
    return this.#places.flatMap(({ logs }) => logs);
  }

  /** What ended by itself, and its last words. */
  get crashes(): readonly string[] {
    return this.#places.flatMap(({ crashes }) => crashes);
  }

  /** As far as they told. */
  get made(): number {
    return this.#places.reduce((sum, { made }) => sum + made, 0);
  }

  place(holder: number): Place {
    const place = this.#places[holder];
    if (place === undefined) throw new RangeError(`There are ${this.#options.size} holders, none at ${holder}.`);
    return place;
  }

  /** Starts all, and waits until so many of them make IDs. */
  async boot(atWork: number): Promise<void> {
    await Promise.all(this.#places.map((place) => place.boot()));
    while (this.#places.filter(({ made }) => made > 0).length < atWork) await sleep(lookEvery);
  }

  /** Ends all: every other one gives its worker ID back. */
  async end(): Promise<void> {
    await Promise.all(this.#places.map((place, i) => (i % 2 === 0 ? place.close() : place.kill())));
  }

  async kill(): Promise<void> {
    await Promise.all(this.#places.map((place) => place.kill()));
  }
}

/** One life after the other, on what would be one machine: they have its name and its clock. */
class Place {
  readonly clock: WallClock | undefined;
  readonly logs: string[] = [];
  readonly crashes: string[] = [];
  readonly #holder: number;
  readonly #options: CrewOptions;
  #child: ChildProcess | undefined;
  #before = 0;
  #now = 0;

  constructor(holder: number, options: CrewOptions) {
    this.clock = wallClock(options.folder);
    this.#holder = holder;
    this.#options = options;
  }

  get made(): number {
    return this.#before + this.#now;
  }

  /** Starts a life, and waits until its program is loaded: what strikes it before would strike nothing. */
  async boot(): Promise<void> {
    const { maker, folder } = this.#options;
    const log = join(folder, `holder-${this.#holder}-life-${this.logs.length + 1}`);
    const task = { maker, options: this.#options.optionsOf(this.#holder), log, bulk, pause };
    // It may be killed before it comes to write anything.
    for (const end of ["ids", "facts"]) writeFileSync(`${log}.${end}`, "");
    const words = openSync(`${log}.stderr`, "w");
    // Dies with this process, however that ends, stopped or not.
    const args = ["--pdeathsig", "KILL", process.execPath, join(import.meta.dirname, "holder.mjs")];
    const child = spawn("setpriv", [...args, JSON.stringify(task)], {
      env: { ...withoutSnowlease(), ...this.clock?.environment },
      stdio: ["ignore", words, words, "ipc"],
    });
    closeSync(words);
    this.#before += this.#now;
    this.#now = 0;
    this.logs.push(log);
    this.#child = child;
    child.on("message", ({ made }: { made: number }) => {
      if (this.#child === child) this.#now = made;
    });
    child.on("error", () => undefined);
    child.on("exit", (code, signal) => {
      if (this.#child !== child) return;
      this.crashes.push(`${log} ended by itself (${signal ?? code}): ${readFileSync(`${log}.stderr`, "utf8").trim()}`);
      void this.boot();
    });
    await Promise.race([once(child, "message"), once(child, "exit")]);
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal);
  }

  /** With -9. */
  async kill(): Promise<void> {
    await this.#end((child) => child.kill("SIGKILL"));
  }

  /** Lets it give its worker ID back; one that takes too long is killed. */
  async close(): Promise<void> {
    await this.#end((child) => {
      child.send("close", () => undefined);
      void sleep(patience, undefined, { ref: false }).then(() => child.kill("SIGKILL"));
    });
  }

  async #end(how: (child: ChildProcess) => void): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    how(child);
    await exit;
  }
}
