import type { Stored } from "../../rule/window.ts";
import type { Standing } from "../engine/port.ts";
import type { Freshness, Leases } from "./leases.ts";
import type { LeaseNames, LeaseObject } from "./objects.ts";
import { type LeaseRecord, listedRecord, readFacts, readNoted, readRecord } from "./records.ts";

/** What stands under the name of a namespace, as its object has it. */
export interface Facts {
  readonly standing: Standing;
  /** The API server's clock, Unix ms. */
  readonly clock: number;
  readonly object: LeaseObject | undefined;
}

/** The objects of a namespace, as one attempt reads them. */
export class StoredObjects {
  readonly leases: Leases;
  readonly names: LeaseNames;
  /** The records that were read, as their objects have them. */
  readonly rows: Map<Stored, LeaseRecord> = new Map();
  #begun: Promise<Facts> | undefined;

  constructor(leases: Leases, names: LeaseNames) {
    this.leases = leases;
    this.names = names;
  }

  /** What stands under the name of the namespace, as this attempt read it first. */
  begin(): Promise<Facts> {
    this.#begun ??= this.facts();
    return this.#begun;
  }

  /** The same, as it is now. */
  async facts(): Promise<Facts> {
    const object = await this.leases.get(this.names.facts);
    const made = readFacts(object);
    return { standing: made === undefined ? { noted: readNoted(object) } : { made }, clock: this.leases.now(), object };
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    if (!Number.isSafeInteger(workerId) || workerId < 0) return undefined;
    const object = await this.leases.get(this.names.worker(workerId));
    return object && this.#add(readRecord(object, workerId));
  }

  /** All records. */
  async list(freshness: Freshness): Promise<readonly Stored[]> {
    return this.#listed(await this.leases.listAll(this.names.selector(), freshness));
  }

  /**
   * The few records with this label. A cache may show an older record. The write of a claim then fails, and the next attempt has seen a
   * newer record.
   */
  async withLabel(name: string, value: string, freshness: Freshness): Promise<readonly Stored[]> {
    return this.#listed(await this.leases.list(this.names.selector(name, value), freshness));
  }

  /** Whether lists that select by this label show a record. */
  hasLabel(record: Stored, name: string): boolean {
    const labels = this.rows.get(record)?.object.metadata.labels;
    return [...Object.keys(this.names.labels), name].every((each) => labels?.[each] !== undefined);
  }

  #listed(objects: readonly LeaseObject[]): readonly Stored[] {
    return objects.flatMap((object) => {
      const row = listedRecord(this.names, object);
      return row === undefined ? [] : [this.#add(row)];
    });
  }

  #add(row: LeaseRecord): Stored {
    this.rows.set(row.record, row);
    return row.record;
  }
}
