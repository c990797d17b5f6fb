import { isSnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Tally } from "./events.ts";
import { child, type Holder, honest, type Kind } from "./holders.ts";
import type { Judge } from "./judge.ts";
import { overNetwork } from "./network.ts";
import type { Scenario } from "./scenario.ts";
import type { Leasing } from "./store.ts";
import type { Variant } from "./variant.ts";
import { Machine, type World } from "./world.ts";

const hosts = ["a", "b"];

interface Process {
  readonly number: number;
  /** Its own number, or its parent's. */
  readonly family: number;
  readonly host: string;
  readonly machine: Machine;
  readonly parent?: Process | undefined;
  readonly kind: Kind;
  lease?: Lease | undefined;
  holder?: Holder | undefined;
}

/** The processes of a history: a few at a time, which begin, make IDs, stop, wake, give back and die. */
export class Fleet {
  readonly #world: World;
  readonly #scenario: Scenario;
  readonly #store: Leasing;
  readonly #judge: Judge;
  readonly #tally: Tally;
  readonly #variant: Variant;
  readonly #offsets: Map<string, number>;
  readonly #running: (Process | undefined)[];
  #processes = 0;
  #tokens = 0;

  constructor(world: World, scenario: Scenario, store: Leasing, judge: Judge, tally: Tally, variant: Variant) {
    this.#world = world;
    this.#scenario = scenario;
    this.#store = store;
    this.#judge = judge;
    this.#tally = tally;
    this.#variant = variant;
    this.#offsets = new Map(hosts.map((host) => [host, world.random.between(-2000, 2000)]));
    this.#running = Array.from({ length: scenario.slots }, () => undefined);
  }

  /** Something happens to one of them. */
  act(): void {
    const { random } = this.#world;
    const slot = random.below(this.#running.length);
    const process = this.#running[slot];
    if (process === undefined) return this.#start(slot);
    const dice = random.next();
    if (process.machine.stopped) {
      if (dice < 0.3) process.machine.stopped = false;
    } else if (dice < 0.76) this.#emit(process);
    else if (dice < 0.86) {
      process.holder?.close().catch((error: unknown) => this.#note(process, error));
      if (process.holder !== undefined && random.chance(0.8)) this.#running[slot] = undefined;
    } else if (dice < 0.93) {
      process.machine.dead = true;
      if (process.parent !== undefined) this.#tally.count("child that died");
      this.#running[slot] = undefined;
    } else process.machine.stopped = true;
  }

  /** The clock of a host steps, for every process on it. */
  stepClock(by: number): void {
    const host = this.#world.random.pick(hosts);
    const offset = (this.#offsets.get(host) ?? 0) + by;
    this.#offsets.set(host, offset);
    for (const process of this.#running) if (process?.host === host) process.machine.offset = offset;
  }

  /** What still sleeps belongs to nobody now. */
  end(): void {
    for (const process of this.#running) if (process !== undefined) process.machine.dead = true;
  }

  /** For a claim of this family: the judge has to know whose it is. */
  makeToken(family: number): string {
    return this.#judge.introduce(this.#token(), family);
  }

  #token(): string {
    return (++this.#tokens).toString(16).padStart(32, "0");
  }

  #start(slot: number): void {
    const { random } = this.#world;
    const parents = this.#running.filter((process) => process?.holder?.lent !== undefined && process.machine.runs);
    const parent = parents.length > 0 && random.chance(0.7) ? random.pick(parents) : undefined;
    const number = ++this.#processes;
    const host = parent?.host ?? random.pick(hosts);
    const machine = new Machine(this.#world, this.#offsets.get(host) ?? 0);
    const kind = this.#variant.kind ?? honest(this.#scenario, random);
    const process: Process = { number, family: parent?.number ?? number, host, machine, parent, kind };
    this.#running[slot] = process;
    this.#lease(process)
      .then(
        (lease) => {
          process.lease = lease;
          this.#listen(lease);
          return this.#hold(process, lease);
        },
        (error: unknown) => this.#giveUp(slot, process, error),
      )
      .catch((error: unknown) => this.#giveUp(slot, process, error));
  }

  #lease({ number, family, host, machine, parent, kind }: Process): Promise<Lease> {
    const { options, weather, nearby, layout } = this.#scenario;
    const holder = { host, ip: "", pid: number, instance: "" };
    if (parent?.holder?.lent !== undefined) {
      const registry = overNetwork(this.#world, machine, parent.holder.lent, nearby, parent.machine);
      const own = { pool: layout.pool, workerId: undefined, limits: undefined };
      return Lease.claim({ registry, clock: machine, makeToken: () => this.#token() }, { ...options, ...own, holder });
    }
    const seen = this.#variant.view?.(this.#store) ?? this.#store;
    const registry = overNetwork(this.#world, machine, seen, weather);
    const makeToken = (): string => this.makeToken(family);
    return Lease.claim({ registry, clock: machine, makeToken }, { ...options, leads: kind.leads, holder });
  }

  async #hold(process: Process, lease: Lease): Promise<void> {
    if (process.parent === undefined) {
      this.#tally.count("claim");
      process.holder = process.kind.hold(lease, this.#world.random, this.#tally);
    } else {
      process.holder = await child(lease, this.#world.random, this.#tally);
      this.#tally.count("child that began");
    }
  }

  #listen(lease: Lease): void {
    lease.on("acquired", ({ continued }) => this.#tally.count("claim that continued", Number(continued)));
    lease.on("lost", () => this.#tally.count("lost lease"));
    lease.on("switched", () => this.#tally.count("switch"));
  }

  #giveUp(slot: number, process: Process, error: unknown): void {
    this.#note(process, error);
    if (this.#running[slot] === process) this.#running[slot] = undefined;
  }

  #emit(process: Process): void {
    const { random } = this.#world;
    const bursts = this.#scenario.leads ? [1, 2, 30, 60] : [1, 1, 2, 2, 3, 3, 30];
    for (let i = random.pick(bursts); i > 0 && process.holder !== undefined; i--) {
      try {
        this.#made(process, process.holder.emit());
      } catch (error) {
        this.#note(process, error);
        return;
      }
    }
  }

  #made({ number, family, machine, parent, lease }: Process, id: bigint): void {
    const { layout } = this.#scenario;
    this.#variant.made?.(id, layout);
    this.#judge.made(id, family, number);
    this.#tally.count("ID");
    if (layout.decompose(id).timestamp > machine.now()) this.#tally.count("ID that led its maker's clock");
    if (parent === undefined) return;
    this.#tally.count("ID by a child");
    if (parent.machine.dead) this.#tally.count("ID by a child whose parent had died");
    else if (parent.lease?.state === "closed") this.#tally.count("ID by a child whose parent had given back");
    else if (parent.lease?.snapshot?.fence !== lease?.fence)
      this.#tally.count("ID by a child whose parent had switched");
  }

  /** Refusals are part of life; that a registry finds a request of an honest holder invalid is not. */
  #note({ number }: Process, error: unknown): void {
    // What came late was refused for its clock; any other cause is a failure that the world did not make.
    const isMade =
      isSnowleaseError(error) && (error.cause === undefined || isSnowleaseError(error.cause, "CLOCK_SKEW"));
    const simulated = isMade && error.code !== "CONFIG_INVALID";
    if (!simulated) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.#judge.accuse(`Holder ${number}: ${text}`);
    } else if (error.code === "SEQUENCE_EXHAUSTED" && "until" in error.details)
      this.#tally.count("lead window used up");
  }
}
