import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ensure } from "../conformance/assert.ts";
import type { HistoryRow, WorkerRecord } from "../rule/registry.ts";
import { HolderProcess } from "./holder-process.ts";
import type { ProofSubject } from "./subject.ts";
import { WallClock } from "./wall-clock.ts";

/** Longest wait for what has to come about, ms: a server that was started again may be in a quarantine first. */
const patience = 180_000;

/** Looks again and again until something is so. Rejects after some minutes. */
export async function eventually<Seen>(look: () => Promise<Seen>, isSo: (seen: Seen) => boolean): Promise<Seen> {
  const begun = performance.now();
  for (;;) {
    const seen = await look();
    if (isSo(seen)) return seen;
    ensure(performance.now() - begun < patience, "this to change", seen);
    await sleep(20);
  }
}

/** One running case: its processes, and what the registry has stored. */
export class RestartTrial {
  readonly #subject: ProofSubject;
  readonly #folder = mkdtempSync(join(tmpdir(), "snowlease-proof-"));
  readonly #holders: HolderProcess[] = [];

  constructor(subject: ProofSubject) {
    this.#subject = subject;
  }

  get usesHostClock(): boolean {
    return this.#subject.usesHostClock === true;
  }

  /** The wall clock of some holders. */
  clock(): WallClock {
    return new WallClock(0, this.#folder);
  }

  holder(options: object = {}, clock?: WallClock): HolderProcess {
    const { url: registry, namespace, environment } = this.#subject;
    const made = new HolderProcess(
      { registry, namespace, window: 2000, ...options },
      { folder: this.#folder, environment: { ...environment, ...clock?.environment } },
    );
    this.#holders.push(made);
    return made;
  }

  /** A holder, ready to start, whose clock is now 5 s behind what the registry last saw of it. */
  async setBack(options: object, clock: WallClock, stored: WorkerRecord): Promise<HolderProcess> {
    const made = this.holder(options, clock);
    await made.ask("ready");
    clock.set((stored.seenClock - 5000 - Date.now()) / 1000);
    return made;
  }

  /** Stops a holder between two renewals: stopped within one, it would keep an embedded registry locked for all others. */
  async stop(running: HolderProcess): Promise<void> {
    await running.ask("renew");
    running.signal("SIGSTOP");
  }

  async restart(): Promise<void> {
    await this.#subject.restart?.();
  }

  async record(workerId: number): Promise<WorkerRecord> {
    const { registry, namespace } = this.#subject;
    const found = await registry.worker(namespace, workerId);
    ensure(found !== undefined, `a record of worker ${workerId}`, found);
    return found;
  }

  history(workerId: number): Promise<readonly HistoryRow[]> {
    const { registry, namespace } = this.#subject;
    return registry.history(namespace, workerId);
  }

  allIds(): bigint[] {
    return this.#holders.flatMap((each) => each.ids());
  }

  /** Compares all IDs of all holders with each other; returns how many there are. */
  distinct(): number {
    const all = this.allIds();
    ensure(new Set(all).size === all.length, "no ID twice", `${all.length - new Set(all).size} of ${all.length}`);
    return all.length;
  }

  /** Lets every holder that still runs give its worker ID back. */
  async closeAll(): Promise<void> {
    for (const each of this.#holders) await each.ask("close").catch(() => undefined);
  }

  async end(): Promise<void> {
    await Promise.all(this.#holders.map((each) => each.kill()));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
