import { setTimeout as sleep } from "node:timers/promises";
import { blackHole, type Faults } from "../test/support/fault-proxy.ts";
import type { Crew } from "./crew.ts";
import type { LateProxy } from "../test/support/late-proxy.ts";
import { type Fault, type FaultKind, faultKinds } from "./plan.ts";
import type { Incidents } from "./checker.ts";
import { monotonicNow } from "./log.ts";
import type { PutBack, Scene } from "./scene.ts";

/** How each fault changes a network. */
const networks: Partial<Record<FaultKind, Faults>> = {
  "requests lost": { toServer: "drop" },
  "answers lost": { toClient: "drop" },
  "requests late": { toServer: "hold" },
  "answers late": { toClient: "hold" },
  "cut off": blackHole,
};

/** How long the nemesis waits for a write that it can keep across a restore, and how long after the restore that write arrives, ms. */
const [longestKeep, lateness] = [500, 300];
/** How long an original is stopped if its copy sends first, ms. */
const pauseOfOriginal = 400;

/** Carries out a plan. */
export class Nemesis {
  /** How often each fault was done. */
  readonly done: Map<FaultKind, number> = new Map<FaultKind, number>();
  /** Incidents that explain why holders are refused, or lose their leases. */
  readonly incidents: Incidents & {
    readonly restores: Incidents["restores"][number][];
    readonly restarts: number[];
  };
  readonly #scene: Scene;
  readonly #crew: Crew;
  /** The work on the servers and the store, one piece after the other. */
  #under: Promise<unknown> = Promise.resolve();

  constructor(scene: Scene, crew: Crew) {
    this.#scene = scene;
    this.#crew = crew;
    this.incidents = { restores: [], restarts: [], mayForget: !scene.remembers };
  }

  get count(): number {
    return [...this.done.values()].reduce((sum, count) => sum + count, 0);
  }

  /**
   * Carries out all faults. At the end, nothing is stopped, cut off or down. A fault waits for earlier faults of the same target, so a
   * busy machine delays faults and drops none.
   */
  async run(faults: readonly Fault[]): Promise<void> {
    const began = performance.now();
    const lanes = new Map<string, Promise<void>>();
    for (const fault of faults) {
      await sleep(Math.max(0, fault.at - (performance.now() - began)));
      const { strikes, lane } = faultKinds[fault.kind];
      const place = `${strikes} ${fault.target} ${lane}`;
      const next = (lanes.get(place) ?? Promise.resolve()).then(() => this.#carryOut(fault));
      // The code that awaits the lane gets the error.
      next.catch(() => undefined);
      lanes.set(place, next);
    }
    await Promise.all(lanes.values());
  }

  async #carryOut(fault: Fault): Promise<void> {
    const { strikes } = faultKinds[fault.kind];
    if (strikes === "server" && this.#scene.doubtsRestarts) this.incidents.restarts.push(monotonicNow());
    if (fault.kind === "primary replaced") {
      if (!(await this.#scene.failOver?.())) return;
    } else if (strikes === "holder") await this.#strikeHolder(fault);
    else if (strikes === "link") await this.#strikeLink(fault);
    else if (strikes === "store") await this.#putBack(fault);
    else if (strikes === "original") {
      if (!(await this.#copy(fault))) return;
    } else await this.#alone(() => this.#strikeServer(fault));
    this.done.set(fault.kind, (this.done.get(fault.kind) ?? 0) + 1);
  }

  async #strikeHolder({ kind, target, lasts, by }: Fault): Promise<void> {
    const place = this.#crew.place(target);
    if (kind === "holder's clock stepped") {
      place.clock?.set(by / 1000);
      await sleep(lasts);
      place.clock?.set(0);
    } else if (kind === "holder stopped") {
      place.signal("SIGSTOP");
      await sleep(lasts);
      place.signal("SIGCONT");
    } else {
      await (kind === "holder deployed anew" ? place.close() : place.kill());
      await place.boot();
    }
  }

  /** Takes a copy, waits, and puts the copy back. The store may be stopped or killed in between. */
  async #putBack({ lasts, by }: Fault): Promise<void> {
    const { restores } = this.#scene;
    const restore = restores[Math.abs(by) % restores.length];
    if (restore === undefined) return;
    let putBack: PutBack | undefined;
    await this.#alone(async () => (putBack = await restore.copy()));
    const copied = monotonicNow();
    await sleep(lasts);
    const late = this.#everyOtherLate(by);
    const kept = late.map((proxy) => proxy.keepNext());
    await Promise.race([sleep(longestKeep), ...kept]);
    await this.#alone(async () => {
      const begin = { copied, begin: monotonicNow(), wall: Date.now() };
      let end: number | undefined;
      await putBack?.(() => (end = monotonicNow()));
      const served = monotonicNow();
      this.incidents.restores.push({ ...begin, end: end ?? served, served });
    });
    await sleep(lateness);
    for (const proxy of late) proxy.arrive();
  }

  /** The proxies that keep writes for every second holder. `by` decides which half. */
  #everyOtherLate(by: number): readonly LateProxy[] {
    const { late = [] } = this.#scene;
    return late.filter((_, holder) => (holder + by) % 2 === 0).flat();
  }

  /** Copies a holder. Returns false if the holder has nothing to copy. */
  async #copy({ target, lasts, by }: Fault): Promise<boolean> {
    const original = this.#crew.place(target);
    const copy = await this.#crew.copy(target);
    if (copy === undefined) return false;
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

  async #strikeServer({ kind, target, lasts, by }: Fault): Promise<void> {
    const { servers, cut } = this.#scene;
    const server = servers[target];
    if (server === undefined) return;
    if (kind === "server's clock stepped") {
      server.clock?.set(by / 1000);
      await sleep(lasts);
      server.clock?.set(0);
    } else if (kind === "server cut off") {
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

/** Sends a signal to a process. The process may have ended meanwhile, such as a database's process for a connection. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended.
  }
}
