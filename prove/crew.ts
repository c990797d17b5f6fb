import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
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
  /** The program of this holder; undefined for holder.mjs. */
  clientOf?(holder: number): ClientProgram | undefined;
  /** The folder for the logs. */
  readonly folder: string;
}

/** A holder in another language. clients/README.md describes its arguments, and what it writes. */
export interface ClientProgram {
  readonly language: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** How many IDs are made at a time, and the pause after that, ms. So two holders of one worker ID soon make IDs in the same tick. */
const [bulk, pause] = [256, 3];
/** How long a holder may take to end, or to answer what a copy of it needs, ms. */
const patience = 10_000;
const lookEvery = 50;
const holderCommand = [process.execPath, join(import.meta.dirname, "holder.mjs")];

/** A line from a holder: how many IDs it has made, and, if it was asked for it, everything that a copy of it needs. */
interface Told {
  readonly made: number;
  /** null if the holder cannot answer that at the moment. */
  readonly image?: object | null | undefined;
}

/** The holders of a run: a fixed number of places, each with one process after another. */
export class Crew {
  readonly #options: CrewOptions;
  readonly #places: readonly Place[];
  readonly #copies: Place[] = [];

  constructor(options: CrewOptions) {
    this.#options = options;
    this.#places = Array.from({ length: options.size }, (_, holder) => new Place(holder, options));
  }

  /** The paths of the logs of each life, without `.ids` and `.facts`. */
  get logs(): readonly string[] {
    return this.#all.flatMap(({ logs }) => logs);
  }

  /** The holders that ended by themselves, and their last words. */
  get crashes(): readonly string[] {
    return this.#all.flatMap(({ crashes }) => crashes);
  }

  /** How many IDs the holders have reported. */
  get made(): number {
    return this.#all.reduce((sum, { made }) => sum + made, 0);
  }

  /** The logs by the language of their holders. */
  get logsByLanguage(): ReadonlyMap<string, readonly string[]> {
    const found = new Map<string, string[]>();
    for (const { language, logs } of this.#all) found.set(language, [...(found.get(language) ?? []), ...logs]);
    return found;
  }

  get #all(): readonly Place[] {
    return [...this.#places, ...this.#copies];
  }

  place(holder: number): Place {
    const place = this.#places[holder];
    if (place === undefined) throw new RangeError(`There are ${this.#options.size} holders, none at ${holder}.`);
    return place;
  }

  /** Starts all holders, and waits until `atWork` of them make IDs. */
  async boot(atWork: number): Promise<void> {
    await Promise.all(this.#places.map((place) => place.boot()));
    while (this.#places.filter(({ made }) => made > 0).length < atWork) await sleep(lookEvery);
  }

  /**
   * Makes a second process that continues with everything that this holder has: token, turns, receipt, window and the position of its
   * generator. Undefined if the holder has no lease.
   */
  async copy(holder: number): Promise<Place | undefined> {
    const original = this.place(holder);
    const number = this.#copies.length + 1;
    const copy = new Place(holder, this.#options, { number, clock: original.clock });
    this.#copies.push(copy);
    await copy.boot();
    const image = await original.image(number);
    if (image === undefined) await copy.kill();
    else copy.send({ copied: number, image });
    return image === undefined ? undefined : copy;
  }

  /** Ends all holders. Every second one gives its worker ID back. */
  async end(): Promise<void> {
    await Promise.all(this.#all.map((place, i) => (i % 2 === 0 ? place.close() : place.kill())));
  }

  async kill(): Promise<void> {
    await Promise.all(this.#all.map((place) => place.kill()));
  }
}

/** Runs one life after another as if on one machine: they have its name and its clock. Or runs the single life of a copy. */
class Place {
  readonly clock: WallClock | undefined;
  readonly logs: string[] = [];
  readonly crashes: string[] = [];
  readonly #holder: number;
  readonly #options: CrewOptions;
  readonly #copy: number | undefined;
  #child: ChildProcess | undefined;
  #before = 0;
  #now = 0;

  constructor(holder: number, options: CrewOptions, copy?: { number: number; clock: WallClock | undefined }) {
    this.clock = copy === undefined ? wallClock(options.folder) : copy.clock;
    this.#holder = holder;
    this.#options = options;
    this.#copy = copy?.number;
  }

  get made(): number {
    return this.#before + this.#now;
  }

  get language(): string {
    return this.#client?.language ?? "Node";
  }

  get #client(): ClientProgram | undefined {
    return this.#options.clientOf?.(this.#holder);
  }

  /** Starts a life, and waits until its program is loaded. An earlier fault would strike nothing. */
  async boot(): Promise<void> {
    const { maker, folder } = this.#options;
    const name = this.#copy === undefined ? `life-${this.logs.length + 1}` : `copy-${this.#copy}`;
    const log = join(folder, `holder-${this.#holder}-${name}`);
    const isCopy = this.#copy !== undefined;
    const options = this.#options.optionsOf(this.#holder);
    const client = this.#client;
    // The holder may be killed before it writes anything.
    for (const end of ["ids", "facts"]) writeFileSync(`${log}.${end}`, "");
    const words = openSync(`${log}.stderr`, "w");
    // The holder dies with this process, however this process ends, even if the holder is stopped.
    const command =
      client === undefined
        ? [...holderCommand, JSON.stringify({ maker, options, log, bulk, pause, isCopy })]
        : [...client.command, ...textsOf({ ...options, log, bulk, pause, clock: this.clock?.file ?? "" })];
    const child = spawn("setpriv", ["--pdeathsig", "KILL", ...command], {
      env: { ...withoutSnowlease(), ...(client?.environment ?? this.clock?.environment) },
      stdio: ["pipe", "pipe", words],
    });
    closeSync(words);
    this.#before += this.#now;
    this.#now = 0;
    this.logs.push(log);
    this.#child = child;
    const { stdin, stdout } = child;
    if (stdin === null || stdout === null) throw new Error("A holder was started without its pipes.");
    // The holder may end before it has read everything.
    stdin.on("error", () => undefined);
    const lines = createInterface({ input: stdout });
    lines.on("line", (line) => {
      const told = JSON.parse(line) as Told;
      if (this.#child === child) this.#now = told.made;
      if (told.image !== undefined) child.emit("image", told.image);
    });
    child.on("error", () => undefined);
    child.on("exit", (code, signal) => {
      if (this.#child !== child) return;
      this.crashes.push(`${log} ended by itself (${signal ?? code}): ${readFileSync(`${log}.stderr`, "utf8").trim()}`);
      if (!isCopy) void this.boot();
    });
    await Promise.race([once(lines, "line"), once(child, "exit")]);
  }

  /** What another process needs to continue as this holder; undefined if this holder has no lease. */
  async image(number: number): Promise<object | undefined> {
    const child = this.#child;
    const end = performance.now() + patience;
    const exit = child && once(child, "exit").then(() => undefined);
    exit?.catch(() => undefined);
    while (child !== undefined && child === this.#child && child.exitCode === null && performance.now() < end) {
      const answer = once(child, "image") as Promise<[image: object | null]>;
      tell(child, { copied: number });
      const [image] = (await Promise.race([answer, exit])) ?? [];
      if (image) return image;
      await sleep(lookEvery);
    }
    return undefined;
  }

  send(message: object): void {
    if (this.#child !== undefined) tell(this.#child, message);
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal);
  }

  /** Kills the holder with -9. */
  async kill(): Promise<void> {
    await this.#end((child) => child.kill("SIGKILL"));
  }

  /** Lets the holder give its worker ID back, and kills it if that takes too long. */
  async close(): Promise<void> {
    await this.#end((child) => {
      tell(child, {});
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

function textsOf(task: object): string[] {
  return Object.entries(task).map((pair) => pair.join("="));
}

/** Sends a line to a holder. `{}` asks it to give the worker ID back and to end. */
function tell(child: ChildProcess, message: object): void {
  child.stdin?.write(`${JSON.stringify(message)}\n`);
}
