import { nextEra } from "../../rule/era.ts";
import { eraMark } from "../../rule/new-namespace.ts";
import type { Stored } from "../../rule/window.ts";
import { type Answers, askAll, type Attempt, type AttemptOptions } from "../engine/optimistic.ts";
import { Beaten, Changed } from "../engine/operate.ts";
import { type Replacement, type Standing, stateOf, type StoreChanges, type StoreRead } from "../engine/port.ts";
import { together } from "../together.ts";
import type { ClaimMemory } from "./claim-memory.ts";
import { checkThere, eraseSome } from "./erase.ts";
import { isSame } from "./leases.ts";
import type { LeaseContent, LeaseObject } from "./objects.ts";
import { KubernetesReader } from "./reader.ts";
import { factsObject, type LeaseRecord, notedObject, recordObject } from "./records.ts";
import type { StoredObjects } from "./stored-objects.ts";

/*
 * Kubernetes writes one object at a time, so a record and the era of its namespace never change in one step. Each side reads the other
 * side's object after its own write. These reads ask the majority:
 *
 *     a grant or a renewal   writes the record, then reads the facts: it answers only if they are as they were before the write
 *     the begin of an era    writes the facts, then reads the record that decided it: if that has changed, it is decided again
 *
 * The writer of the second write always sees the first write. So no holder gets the answer that a quarantine protects it while a claim of
 * its worker ID is granted in the era before. And no answer has a window of an era that had ended when the window was stored. No holder
 * uses a window that was stored and not answered: the worker ID rests until it has passed. A removal works the same way: `erase.ts`.
 */

/** One attempt at an operation, on the objects of a namespace. */
export class KubernetesAttempt implements Attempt {
  readonly #objects: StoredObjects;
  readonly #memory: ClaimMemory;
  readonly #reader: KubernetesReader;
  readonly #kind: AttemptOptions["kind"];

  constructor(objects: StoredObjects, memory: ClaimMemory, options: AttemptOptions) {
    this.#objects = objects;
    this.#memory = memory;
    this.#reader = new KubernetesReader(objects, memory, options);
    this.#kind = options.kind;
  }

  async read(reads: readonly StoreRead[]): Promise<Answers> {
    const [{ standing, clock }, found] = await together([this.#objects.begin(), askAll(this.#reader, reads)]);
    const answers = { standing, clock };
    if (this.#kind === "read") return { ...answers, found };
    const { made } = standing;
    // A holder that has to wait goes on with its window. So the answer must show a claim that raced with this era: its record is read after
    // the era.
    const waits = made !== undefined && clock < made.era.opensAt;
    const behind = reads.map((read, i) => (waits && read[0] === "byId" ? this.#objects.byId(read[1]) : found[i]));
    const present = await together(behind);
    for (const record of this.#objects.rows.keys()) await this.#checkEra(record, standing);
    return { ...answers, found: present };
  }

  async commit({ standing, becomes, records }: StoreChanges): Promise<void> {
    const { leases, names } = this.#objects;
    const { object } = await this.#objects.begin();
    if (becomes === undefined) {
      for (const each of records) await this.#replace(each, standing);
    } else if (becomes.made !== undefined) {
      await leases.put(object, factsObject(names, becomes.made, object));
      await this.#checkStands(records);
    } else if (standing.made === undefined && becomes.noted !== undefined) {
      await leases.put(object, notedObject(names, becomes.noted, object));
    } else if (object !== undefined) {
      await eraseSome(leases, names, { facts: object, noted: becomes.noted });
    }
  }

  /** Checks, after a write of the facts, the records that decided it. A write to one of these records is decided again. */
  async #checkStands(records: readonly Replacement[]): Promise<void> {
    const { leases, names } = this.#objects;
    for (const { workerId, before, after } of records) {
      if (after !== before) throw new Changed("the namespace was written first");
      if (!isSame(await leases.get(names.worker(workerId)), this.#row(before)?.object)) {
        throw new Changed("the record changed while the era began");
      }
    }
  }

  async #replace({ before, after, ended }: Replacement, standing: Standing): Promise<void> {
    const { leases, names } = this.#objects;
    const row = this.#row(before);
    // A read asks the majority, so it has shown that the record is unchanged.
    if (after === before) return this.#checkSame();
    if (after === undefined) return row && leases.remove(row.object);
    const object = recordObject(names, after, row, ended);
    const isClaim = after.token !== undefined && after.token !== before?.token;
    const written = isClaim
      ? await this.#claim(after, { before: row?.object, object, standing })
      : await leases.put(row?.object, object);
    const made = row === undefined ? written : undefined;
    // The answer to the end of a claim, or to a pin, has nothing that a holder could use, and a later era inherits nothing from this one.
    if (after.token !== undefined && after.pinned === before?.pinned) await this.#checkSame(made);
    else if (made !== undefined) await checkThere(leases, names, made);
  }

  async #claim(
    { workerId, token = "", until }: Stored,
    {
      before,
      object,
      standing,
    }: { readonly before: LeaseObject | undefined; readonly object: LeaseContent; readonly standing: Standing },
  ): Promise<LeaseObject> {
    const { sent } = this.#memory;
    const wasSent = sent.get(token) === true;
    sent.set(token, true);
    try {
      const written = await this.#objects.leases.put(before, object);
      this.#memory.noteTaken(standing, workerId, until);
      return written;
    } catch (error) {
      if (error instanceof Beaten) {
        if (!wasSent) sent.delete(token);
        // After this read, the next attempt accepts only a cache that has at least this version.
        const other = await this.#objects.byId(workerId);
        this.#memory.noteTaken(standing, workerId, other?.until ?? 0);
      }
      throw error;
    }
  }

  /**
   * Makes sure, after the write of a record, that the era of the decision still lasts. `made`: the record, if it is new.
   * @throws Changed
   */
  async #checkSame(made?: LeaseObject): Promise<void> {
    const { leases, names } = this.#objects;
    const { object } = await this.#objects.begin();
    if (isSame(await leases.get(names.facts), object)) return;
    if (made !== undefined) await checkThere(leases, names, made);
    throw new Changed("another era began");
  }

  /**
   * Refuses a record of a later era than the one that was read, because that era began meanwhile. If the record's era is still later than
   * the present one, only the facts were put back to an older copy. The next era then begins.
   */
  async #checkEra({ era }: Stored, { made: read }: Standing): Promise<void> {
    if (read === undefined || era === undefined || numberOf(era) <= numberOf(read.era.era)) return;
    const { leases, names } = this.#objects;
    const { standing, clock, object } = await this.#objects.facts();
    const { made } = standing;
    if (made !== undefined && numberOf(era) > numberOf(made.era.era)) {
      const next = nextEra({ ...stateOf(made, clock), era }, clock, made.info, eraMark);
      await leases.put(object, factsObject(names, { ...made, era: next }, object));
    }
    throw new Changed("a later era has begun");
  }

  #row(record: Stored | undefined): LeaseRecord | undefined {
    const row = record && this.#objects.rows.get(record);
    if (record !== undefined && row === undefined) throw new Error(`worker ${record.workerId} was not read`);
    return row;
  }
}

function numberOf(era: string): number {
  return Number.parseInt(era, 10);
}
