import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Event, Tally } from "./events.ts";
import { child, type Holder, honest, type Kind, lending } from "./holders.ts";
import type { Judge } from "./judge.ts";
import { overNetwork } from "./network.ts";
import type { Scenario } from "./scenario.ts";
import type { Leasing } from "./store.ts";
import { Twins } from "./twins.ts";
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
  /** Of its last claim. */
  token?: string | undefined;
  /** The turn of its renewal under way or without an answer. */
  turn?: { readonly next: string | undefined; readonly isLate: boolean } | undefined;
  /** The same process once more, until the two part. */
  twin?: { readonly process: Process; readonly twins: Twins } | undefined;
  /** When it was copied and stopped, true time. */
  imageSince?: number | undefined;
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
      if (dice < 0.3) this.#resume(process);
    } else if (process.twin !== undefined && dice < 0.12) this.#copy(process);
    else if (dice < 0.76) this.#emit(process);
    else if (dice < 0.86) {
      process.holder?.close().catch((error: unknown) => this.#note(process, error));
      process.twin?.process.holder?.close().catch(() => undefined);
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

  /** Parts a process from its twin, which begins a life of its own: at once, or as an image that is resumed later. */
  #copy(process: Process): void {
    const { random } = this.#world;
    if (process.twin === undefined) return;
    const { process: copy, twins } = process.twin;
    process.twin = undefined;
    copy.machine.part();
    twins.part(copy.machine);
    const { next, isLate = false } = process.turn ?? {};
    [copy.turn, copy.token] = [process.turn, process.token];
    const { token = "", lease } = process;
    this.#judge.copied(process.number, copy.number, { token, turn: next, isLate, until: lease?.until ?? 0 });
    this.#tally.count("process that was copied");
    this.#running.push(copy);
    if (random.chance(0.3)) return;
    copy.machine.stopped = true;
    copy.imageSince = this.#world.time;
  }

  #resume(process: Process): void {
    const { machine, imageSince } = process;
    machine.stopped = false;
    if (imageSince !== undefined) machine.fallBehind(this.#world.time - imageSince);
    process.imageSince = undefined;
  }

  /** Random digits, as the kernel of a machine makes them. */
  token(): string {
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
    const isCopied = this.#scenario.copies && parent === undefined && kind !== lending && random.chance(0.6);
    const twins = isCopied ? new Twins(this.#world) : undefined;
    const kernel = new Kernel(() => this.token());
    this.#run(process, this.#reach(process, twins, "first"), kernel.bytes());
    if (twins === undefined) return;
    const second = ++this.#processes;
    const copy: Process = { number: second, family: second, host, machine: machine.twin(), kind };
    process.twin = { process: copy, twins };
    // The kernel of a copy repeats its random bytes, or draws its own.
    const bytes = kernel.bytes(random.chance(0.5) ? undefined : () => process.twin !== undefined);
    this.#run(copy, this.#reach(copy, twins, "second"), bytes, process);
  }

  /** @param original whose copy it is, if it is one: what becomes of it does not count before they part. */
  #run(process: Process, registry: Registry, bytes: () => string, original?: Process): void {
    const isCopy = (): boolean => original?.twin?.process === process;
    this.#lease(process, registry, bytes)
      .then(async (lease) => {
        process.lease = lease;
        this.#listen(process, lease, isCopy);
        await this.#hold(process, lease, isCopy());
      })
      .catch((error: unknown) => {
        if (!isCopy()) this.#giveUp(process, error);
      });
  }

  /** The way of a process to the store. */
  #reach(process: Process, twins: Twins | undefined, which: "first" | "second"): Registry {
    const { machine, parent } = process;
    const { weather, nearby } = this.#scenario;
    if (parent?.holder?.lent !== undefined) {
      return overNetwork(this.#world, machine, parent.holder.lent, nearby, parent.machine);
    }
    const seen = this.#variant.view?.(this.#store) ?? this.#store;
    const reached = this.#hearing(process, overNetwork(this.#world, machine, seen, weather));
    const twin = twins?.[which](reached) ?? reached;
    return this.#variant.holding?.(twin) ?? twin;
  }

  /** The judge hears what a holder hears. */
  #hearing(process: Process, registry: Registry): Registry {
    return {
      ...registry,
      claim: (request) => {
        process.token = request.token;
        this.#judge.introduce(request.token, process.family);
        return registry.claim(request);
      },
      renew: async (request) => {
        if (process.turn?.next !== request.nextTurn) {
          process.turn = { next: request.nextTurn, isLate: request.clock >= (process.lease?.until ?? 0) };
        }
        try {
          const answer = await registry.renew(request);
          process.turn = undefined;
          this.#judge.heard(process.family, request, answer);
          return answer;
        } catch (error) {
          this.#judge.heard(process.family, request, error);
          throw error;
        }
      },
    };
  }

  #lease(process: Process, registry: Registry, bytes: () => string): Promise<Lease> {
    const { number, host, machine, parent, kind } = process;
    const { options, layout } = this.#scenario;
    const holder = { host, ip: "", pid: number, instance: "" };
    if (parent?.holder?.lent !== undefined) {
      const own = { pool: layout.pool, workerId: undefined, limits: undefined };
      return Lease.claim({ registry, clock: machine, makeToken: () => this.token() }, { ...options, ...own, holder });
    }
    return Lease.claim({ registry, clock: machine, makeToken: bytes }, { ...options, leads: kind.leads, holder });
  }

  async #hold(process: Process, lease: Lease, isCopy: boolean): Promise<void> {
    if (process.parent === undefined) {
      if (!isCopy) this.#tally.count("claim");
      process.holder = process.kind.hold(lease, this.#world.random, this.#tally);
    } else {
      process.holder = await child(lease, this.#world.random, this.#tally);
      this.#tally.count("child that began");
    }
  }

  #listen({ number, family }: Process, lease: Lease, isCopy: () => boolean): void {
    const count = (event: Event, times = 1): void => {
      if (!isCopy()) this.#tally.count(event, times);
    };
    lease.on("acquired", ({ continued }) => count("claim that continued", Number(continued)));
    lease.on("switched", () => count("switch"));
    lease.on("lost", ({ reason }) => {
      count("lost lease");
      if (reason !== "cloned" || isCopy()) return;
      count("copy that was found out");
      if (this.#judge.wasNeverCopied(family))
        this.#judge.accuse(`Holder ${number} hears that it was cloned, and was not.`);
    });
  }

  #giveUp(process: Process, error: unknown): void {
    this.#note(process, error);
    const slot = this.#running.indexOf(process);
    if (slot >= 0) this.#running[slot] = undefined;
  }

  #emit(process: Process): void {
    const { random } = this.#world;
    const bursts = this.#scenario.leads ? [1, 2, 30, 60] : [1, 1, 2, 2, 3, 3, 30];
    for (let i = random.pick(bursts); i > 0 && process.holder !== undefined; i--) {
      try {
        const id = process.holder.emit();
        const twin = attempt(process.twin?.process.holder);
        if (process.twin !== undefined && id !== twin) {
          this.#judge.accuse(`The copy of holder ${process.number} made ${twin}, not ${id}, before they parted.`);
        }
        this.#made(process, id);
      } catch (error) {
        attempt(process.twin?.process.holder);
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
  #note({ number, family, token = "" }: Process, error: unknown): void {
    const isExcused = this.#judge.isGrantedAnew(token) || this.#judge.isCopied(family);
    if (isSnowleaseError(error, "CONFIG_INVALID") && isExcused) return;
    if (!isSimulated(error)) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      this.#judge.accuse(`Holder ${number}: ${text}`);
    } else if (error.code === "SEQUENCE_EXHAUSTED" && "until" in error.details)
      this.#tally.count("lead window used up");
  }
}

/** Whether the world made it. What came late was refused for its clock, and a lease expires because something else failed. */
function isSimulated(error: unknown): error is SnowleaseError {
  if (!isSnowleaseError(error) || error.code === "CONFIG_INVALID") return false;
  const { code, cause } = error;
  return (
    cause === undefined || isSnowleaseError(cause, "CLOCK_SKEW") || (code === "LEASE_EXPIRED" && isSimulated(cause))
  );
}

/** The random bytes of a machine and of its copy: up to a moment both draw the same. */
class Kernel {
  readonly #draw: () => string;
  readonly #drawn: string[] = [];

  constructor(draw: () => string) {
    this.#draw = draw;
  }

  /** @param isSame whether it still draws what the other one does; left out: always. */
  bytes(isSame: () => boolean = () => true): () => string {
    let next = 0;
    return () => {
      if (!isSame()) return this.#draw();
      const bytes = this.#drawn[next] ?? this.#draw();
      this.#drawn[next++] = bytes;
      return bytes;
    };
  }
}

/** What the copy of a process makes before they part, to compare it with what the process makes. */
function attempt(holder: Holder | undefined): bigint | undefined {
  try {
    return holder?.emit();
  } catch {
    return undefined;
  }
}
