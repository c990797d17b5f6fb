import { setTimeout as sleep } from "node:timers/promises";
import { blackHole, type Faults } from "../test/support/fault-proxy.ts";
import type { Crew } from "./crew.ts";
import { type Fault, type FaultKind, faultKinds } from "./plan.ts";
import type { Scene } from "./scene.ts";

/** What becomes of a network. */
const networks: Partial<Record<FaultKind, Faults>> = {
  "requests lost": { toServer: "drop" },
  "answers lost": { toClient: "drop" },
  "requests late": { toServer: "hold" },
  "answers late": { toClient: "hold" },
  "cut off": blackHole,
};

/** Carries out what was planned. */
export class Nemesis {
  /** How often each was done. */
  readonly done: Map<FaultKind, number> = new Map<FaultKind, number>();
  readonly #scene: Scene;
  readonly #crew: Crew;

  constructor(scene: Scene, crew: Crew) {
    this.#scene = scene;
    this.#crew = crew;
  }

  get count(): number {
    return [...this.done.values()].reduce((sum, count) => sum + count, 0);
  }

  /**
   * Does it all; then nothing is stopped, cut off or down any more. What strikes the same target waits for what came before, so that a
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
      // Whoever awaits the lane is told.
      next.catch(() => undefined);
      lanes.set(place, next);
    }
    await Promise.all(lanes.values());
  }

  async #carryOut(fault: Fault): Promise<void> {
    const { strikes } = faultKinds[fault.kind];
    if (fault.kind === "primary replaced") {
      if (!(await this.#scene.failOver?.())) return;
    } else if (strikes === "holder") await this.#strikeHolder(fault);
    else if (strikes === "link") await this.#strikeLink(fault);
    else await this.#strikeServer(fault);
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

/** One that ended meanwhile, as a database's process for a connection may, needs no signal. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone.
  }
}
