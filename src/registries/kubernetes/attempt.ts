import type { Era } from "../../rule/era.ts";
import { nextEra } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import { checkUnnoted } from "../../rule/namespace.ts";
import { eraMark, newNamespace, type NewNamespace } from "../../rule/new-namespace.ts";
import type { ClaimRequest, HistoryRow, InitRequest } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import { endedRow } from "../engine/history.ts";
import { together } from "../together.ts";
import { Changed } from "../engine/operate.ts";
import type {
  ClaimAttempt,
  RecordChange,
  Snapshot,
  SnapshotPurpose,
  StoreAttempt,
  StoredNamespace,
} from "../compare-and-set/store.ts";
import { beginClaim } from "./claim.ts";
import { checkThere, erasable, removeAll, removeLate } from "./erase.ts";
import { isSame, type Leases } from "./leases.ts";
import type { LeaseNames, LeaseObject } from "./objects.ts";
import { factsObject, type LeaseRecord, notedObject, recordObject, removedObject, withEra } from "./records.ts";
import { type KubernetesNamespace, type KubernetesStore, type KubernetesTry, type FactsRead, readAt } from "./store.ts";

/*
 * Kubernetes writes one object at a time, so a record and the era of its namespace never change in one step. Each side looks at the other
 * one's object behind its own write, with reads that ask the majority:
 *
 *     a grant or a renewal   writes the record, then reads the facts: it answers only where they are as they were before the write
 *     the begin of an era    writes the facts, then reads the record that it was decided by: another one is decided anew
 *
 * Whichever write comes second, its writer sees the first one. So no holder is told that a quarantine protects it while a claim of its
 * worker ID is granted in the era before, and no window is answered in an era that had ended when it was stored. A window that was stored
 * and not answered is used by no holder: the worker ID rests until it has passed. A removal goes the same way: `erase.ts`.
 */

/** One attempt at an operation, on the objects of a namespace. */
export class KubernetesAttempt implements StoreAttempt<LeaseRecord> {
  readonly waited: number;
  readonly store: KubernetesStore;
  readonly names: LeaseNames;
  readonly tried: KubernetesTry;
  readonly leases: Leases;
  #read: FactsRead | undefined;

  constructor(store: KubernetesStore, names: LeaseNames, tried: KubernetesTry) {
    this.waited = tried.waited;
    this.store = store;
    this.names = names;
    this.tried = tried;
    this.leases = tried.leases;
  }

  async look(): Promise<KubernetesNamespace | undefined> {
    return (await this.begin()).state;
  }

  async create(layout: string, request: Partial<NamespaceLimits> & Pick<InitRequest, "new">): Promise<StoredNamespace> {
    const { state, unknown, clock } = this.#read ?? (await this.begin());
    if (state !== undefined) return state;
    if (request.new === true) checkUnnoted(this.names.namespace, unknown?.noted?.quarantineEnd);
    const made = newNamespace(layout, request, clock, unknown?.noted);
    await this.leases.put(unknown?.note, factsObject(this.names, made, unknown?.note));
    throw new Changed("the namespace was created");
  }

  /** Namespace and note are one object: a note takes effect only where the namespace still does not exist. */
  async note(era: Era): Promise<void> {
    const note = this.#read?.unknown?.note;
    await this.leases.put(note, notedObject(this.names, era, note));
  }

  async putEra(era: Era, before?: { readonly row: LeaseRecord | undefined; readonly workerId: number }): Promise<void> {
    const { facts } = this.#state;
    await this.leases.replace(facts, withEra(this.names, era, facts));
    if (before === undefined || (await this.#stands(before))) return;
    throw new Changed("the record changed while the era began");
  }

  async replace(made: NewNamespace): Promise<void> {
    const { facts } = this.#state;
    await this.leases.replace(facts, factsObject(this.names, made, facts));
  }

  async erase(note: Era | undefined): Promise<boolean> {
    const { leases, names } = this;
    const { facts } = this.#state;
    const some = await erasable(leases, names);
    if (some.length > 0) {
      // Still sealed when they were read: what was written later has another version.
      await this.sameEra();
      await removeAll(leases, some);
      return false;
    }
    const noted = note && (await leases.replace(facts, removedObject(names, note, facts)));
    if (note === undefined) await leases.remove(facts);
    await removeLate(leases, names, noted);
    return true;
  }

  /** A read asks the majority, so none is older than the receipt that it is compared with: there is nothing to confirm. */
  async confirm(): Promise<void> {}

  async snapshot(_purpose: SnapshotPurpose, workerIds: readonly number[]): Promise<Snapshot<LeaseRecord>> {
    const read = (): Promise<(LeaseRecord | undefined)[]> =>
      together(workerIds.map((id) => readAt(this.leases, this.names, id)));
    const [{ state, unknown }, records] = await together([this.begin(), read()]);
    for (const row of records) await this.checkEra(row);
    // Who is told to wait goes on with its window: a claim that this era beat must be seen, so its record is read behind the era.
    const waits = state !== undefined && state.clock < state.opensAt;
    return { state, unknown, records: waits ? await read() : records };
  }

  async claim(request: ClaimRequest): Promise<ClaimAttempt> {
    return beginClaim(this, request);
  }

  async renew({ before, after }: RecordChange<LeaseRecord>): Promise<void> {
    await this.leases.replace(before.object, recordObject(this.names, after, before, undefined));
    await this.sameEra();
  }

  /** Looks at no era afterwards: nothing is answered that a holder could use, and a later era inherits nothing from this one. */
  async end({ before, after }: RecordChange<LeaseRecord>, how: NonNullable<HistoryRow["end"]>): Promise<void> {
    const row = endedRow(before.record, after.until, this.#state.clock, how);
    await this.leases.replace(before.object, recordObject(this.names, after, before, row));
  }

  async pin(changes: readonly RecordChange<LeaseRecord | undefined>[]): Promise<void> {
    for (const { before, after } of changes) {
      const written = await this.leases.put(before?.object, recordObject(this.names, after, before, undefined));
      if (before === undefined) await checkThere(this.leases, this.names, written);
    }
  }

  async unpin(changes: readonly RecordChange<LeaseRecord, Stored | undefined>[]): Promise<void> {
    for (const { before, after } of changes) {
      if (after === undefined) await this.leases.remove(before.object);
      else await this.leases.replace(before.object, recordObject(this.names, after, before, undefined));
    }
  }

  /** Reads the namespace. */
  async begin(): Promise<FactsRead> {
    this.#read = await this.store.read(this.leases, this.names);
    return this.#read;
  }

  /**
   * Makes sure, behind the write of a record, that the era in which it was decided still lasts. `made`: the record, where it is new.
   */
  async sameEra(made?: LeaseObject): Promise<void> {
    const { facts } = this.#state;
    if (isSame(await this.leases.get(this.names.facts), facts)) return;
    if (made !== undefined) await checkThere(this.leases, this.names, made);
    throw new Changed("another era began");
  }

  /**
   * Refuses a record of a later era than the one that was read: that era began in between. Where it still is later, the facts alone were
   * put back to an older copy, and the next era begins.
   */
  async checkEra(row: LeaseRecord | undefined): Promise<void> {
    const state = this.#read?.state;
    const era = row?.record.era;
    if (state === undefined || era === undefined || numberOf(era) <= numberOf(state.era)) return;
    const { state: present, clock } = await this.begin();
    if (present !== undefined && numberOf(era) > numberOf(present.era)) {
      await this.putEra(nextEra({ ...present, era }, clock, present.info, eraMark));
    }
    throw new Changed("a later era has begun");
  }

  /** Whether a record still is as it was read. */
  async #stands({
    row,
    workerId,
  }: {
    readonly row: LeaseRecord | undefined;
    readonly workerId: number;
  }): Promise<boolean> {
    return isSame(await this.leases.get(this.names.worker(workerId)), row?.object);
  }

  get #state(): KubernetesNamespace {
    const state = this.#read?.state;
    if (state === undefined) throw new Error("a write before a read");
    return state;
  }
}

function numberOf(era: string): number {
  return Number.parseInt(era, 10);
}
