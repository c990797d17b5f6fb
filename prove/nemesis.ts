import { setTimeout as sleep } from "node:timers/promises";
import { blackHole, type Faults } from "../test/support/fault-proxy.ts";
import type { WallClock } from "../test/support/wall-clock.ts";
import type { Crew } from "./crew.ts";
import { type Fault, type FaultKind, faultKinds } from "./plan.ts";
import type { Incidents } from "./checker.ts";
import { monotonicNow } from "./log.ts";
import { type Act, Operator } from "./operator.ts";
import type { PutBack, Scene } from "./scene.ts";

/** What becomes of a network. */
const networks: Partial<Record<FaultKind, Faults>> = {
  "requests lost": { toServer: "drop" },
  "answers lost": { toClient: "drop" },
  "requests late": { toServer: "hold" },
  "answers late": { toClient: "hold" },
  "cut off": blackHole,
};

/** What an operator does. */
const acts: Partial<Record<FaultKind, Act>> = {
  "operator: release --force": "release",
  "operator: pin, unpin": "pin",
  "operator: prune": "prune",
  "operator: init again": "init",
  "operator: doctor": "doctor",
  "operator: migrate": "migrate",
};

/** So long an original is stopped whose copy speaks first, ms. */
const pauseOfOriginal = 400;

/** On a busy machine, a quarantine may last until all holders were asked once. */
const roundsOfCopies = 3;
/** So long after the last fault was to begin, holders are copied no more, ms. */
const latestCopy = 20_000;

/** Carries out what was planned. */
export class Nemesis {
  /** How often each was done. */
  readonly done: Map<FaultKind, number> = new Map<FaultKind, number>();
  /** What explains that holders are refused, or lose their leases. */
  readonly incidents: Incidents & {
    readonly restores: Incidents["restores"][number][];
    readonly restarts: number[];
  };
  readonly operator: Operator;
  readonly #scene: Scene;
  readonly #crew: Crew;
  /** When holders are copied no more. */
  #copiesUntil = Infinity;
  /** What is done to servers and to the store, one after the other. */
  #under: Promise<unknown> = Promise.resolve();

  constructor(scene: Scene, crew: Crew) {
    this.#scene = scene;
    this.#crew = crew;
    this.operator = new Operator(scene);
    this.incidents = { restores: [], restarts: [], mayForget: !scene.remembers };
  }

  get count(): number {
    return [...this.done.values()].reduce((sum, count) => sum + count, 0);
  }

  /**
   * Does it all; then nothing is stopped, cut off or down any more. What strikes the same target waits for what came before, so that a
   * busy machine delays faults and drops none, but copies that come much too late.
   */
  async run(faults: readonly Fault[]): Promise<void> {
    const began = performance.now();
    this.#copiesUntil = began + (faults.at(-1)?.at ?? 0) + latestCopy;
    const lanes = new Map<string, Promise<void>>();
    for (const fault of faults) {
      await sleep(Math.max(0, fault.at - (performance.now() - began)));
      const { strikes, lane } = faultKinds[fault.kind];
      const place = `${strikes} ${fault.target} ${lane}`;
      const next = (lanes.get(place) ?? Promise.resolve()).then(() => this.#carryOut(fault));
      // The caller that awaits the lane gets the error.
      next.catch(() => undefined);
      lanes.set(place, next);
    }
    await Promise.all(lanes.values());
  }

  async #carryOut(fault: Fault): Promise<void> {
    const { strikes } = faultKinds[fault.kind];
    const act = acts[fault.kind];
    if (strikes === "server" && this.#scene.doubtsRestarts) this.incidents.restarts.push(monotonicNow());
    if (fault.kind === "primary replaced") {
      if (!(await this.#scene.failOver?.())) return;
    } else if (strikes === "holder") await this.#strikeHolder(fault);
    else if (strikes === "link") await this.#strikeLink(fault);
    else if (strikes === "store") await this.#putBack(fault);
    else if (act !== undefined) await this.operator.act(act, fault.target, fault.lasts);
    else if (strikes === "original") {
      if (!(await this.#copy(fault))) return;
    } else await this.#alone(() => this.#strikeServer(fault));
    this.done.set(fault.kind, (this.done.get(fault.kind) ?? 0) + 1);
  }

  async #strikeHolder(fault: Fault): Promise<void> {
    const { kind, target, lasts } = fault;
    const place = this.#crew.place(target);
    if (faultKinds[kind].lane === "clock") await strikeClock(place.clock, fault);
    else if (kind === "holder stopped") {
      place.signal("SIGSTOP");
      await sleep(lasts);
      place.signal("SIGCONT");
    } else {
      await (kind === "holder deployed anew" ? place.close() : place.kill());
      await place.boot();
    }
  }

  /** The copy is taken before, and the store may be stopped or killed in between. */
  async #putBack({ lasts, by }: Fault): Promise<void> {
    const { restores } = this.#scene;
    const restore = restores[Math.abs(by) % restores.length];
    if (restore === undefined) return;
    let putBack: PutBack | undefined;
    await this.#alone(async () => (putBack = await restore.copy()));
    const copied = monotonicNow();
    await sleep(lasts);
    await this.#alone(async () => {
      const begin = { copied, begin: monotonicNow(), wall: Date.now() };
      let end: number | undefined;
      await putBack?.(() => (end = monotonicNow()));
      const served = monotonicNow();
      this.incidents.restores.push({ ...begin, end: end ?? served, served });
    });
  }

  /** Copies this holder, or the next one that has something to copy; false where none has. */
  async #copy({ target, lasts, by }: Fault): Promise<boolean> {
    const { size } = this.#crew;
    let copy: Awaited<ReturnType<Crew["copy"]>>;
    let holder = target;
    for (let asked = 0; copy === undefined && asked < roundsOfCopies * size; asked++) {
      if (performance.now() > this.#copiesUntil) return false;
      holder = (target + asked) % size;
      copy = await this.#crew.copy(holder);
    }
    if (copy === undefined) return false;
    const original = this.#crew.place(holder);
    if (by < 0) {
      original.signal("SIGSTOP");
      await sleep(pauseOfOriginal);
      original.signal("SIGCONT");
    }
    await sleep(lasts);
    await (by % 2 === 0 ? copy.kill() : copy.close());
    return true;
  }

  async #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const before = this.#under;
    const own = before.catch(() => undefined).then(work);
    this.#under = own;
    return own;
  }

  async #strikeLink({ kind, target, lasts }: Fault): Promise<void> {
    const links = this.#scene.links[target] ?? [];
    const network = networks[kind];
    if (network === undefined) {
      for (const link of links) link.reset();
      return;
    }
    for (const link of links) link.set(network);
    await sleep(lasts);
    for (const link of links) link.heal();
  }

  async #strikeServer(fault: Fault): Promise<void> {
    const { kind, target, lasts } = fault;
    const { servers, cut } = this.#scene;
    const server = servers[target];
    if (server === undefined) return;
    if (faultKinds[kind].lane === "clock") await strikeClock(server.clock, fault);
    else if (kind === "server cut off") {
      cut?.isolate();
      await sleep(lasts);
      cut?.rejoin();
    } else if (kind === "server stopped") {
      const pids = server.pids();
      for (const pid of pids) signal(pid, "SIGSTOP");
      await sleep(lasts);
      for (const pid of pids) signal(pid, "SIGCONT");
    } else {
      await (kind === "server killed (-9)" ? server.kill() : server.end());
      await sleep(lasts);
      await server.start();
    }
  }
}

async function strikeClock(clock: WallClock | undefined, { kind, lasts, by, rate }: Fault): Promise<void> {
  if (kind.endsWith("fast or slow")) clock?.run(rate);
  else clock?.set(by / 1000);
  await sleep(lasts);
  clock?.set(0);
}

/** One that ended meanwhile, as a database's process for a connection may, needs no signal. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}
