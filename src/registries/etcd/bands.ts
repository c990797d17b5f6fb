import type { PoolBounds } from "../../id/pool-bounds.ts";
import { type Band, bandAt, bandsIn, changedBands, cutBands, isUnfiled } from "../bands.ts";
import type { Keys } from "./keys.ts";
import { readBands, readRecord } from "./records.ts";
import type { EtcdNamespace } from "./store.ts";
import { type Entry, type EtcdTransaction, type Expected, mostOperations } from "./transaction.ts";
import { changeOf, type KeyChange, commit } from "./writes.ts";

/** Records that one transaction files anew: each has up to five writes, and the bands have one. */
const filedTogether = Math.floor((mostOperations - 1) / 5);

/** The bands of a namespace as a claim read them. Each claim expects them unchanged: it files its record by them. */
export class EtcdBands {
  #entry: Entry | undefined;
  #bands: readonly Band[];
  readonly #tx: EtcdTransaction;
  readonly #keys: Keys;
  readonly #state: EtcdNamespace;

  constructor(tx: EtcdTransaction, keys: Keys, state: EtcdNamespace, entry: Entry | undefined) {
    this.#entry = entry;
    this.#bands = readBands(entry);
    this.#tx = tx;
    this.#keys = keys;
    this.#state = state;
  }

  /** What a claim expects. */
  get expected(): Expected {
    return { key: this.#keys.bands, before: this.#entry };
  }

  /** The name of the band of a number. */
  nameAt(workerId: number): string | undefined {
    return bandAt(this.#bands, workerId)?.name;
  }

  /** The names under which the records of a pool are filed. */
  namesIn(pool: PoolBounds): readonly string[] {
    return [...new Set(bandsIn(this.#bands, pool).map(({ name }) => name))];
  }

  /**
   * Cuts the bands at the limits of a pool. A claim of one number cuts only where no band has that number.
   * @throws Beaten
   */
  async ensure(pool: PoolBounds, workerId: number | undefined): Promise<void> {
    const isHeld = workerId !== undefined && bandAt(this.#bands, workerId) !== undefined;
    const cut = isHeld ? this.#bands : cutBands(this.#bands, pool);
    if (changedBands(this.#bands, cut).length === 0) return;
    await this.#put(cut, []);
  }

  /** Files some of the records of a pool under the names of their bands. Returns whether all are filed. @throws Beaten */
  async fileSome(pool: PoolBounds): Promise<boolean> {
    const [next, ...more] = bandsIn(this.#bands, pool).filter(isUnfiled);
    if (next === undefined) return true;
    const { name, filed, last } = next;
    const { worker } = this.#keys;
    let found: readonly Entry[] = [];
    let reached = filed;
    for (let width = filedTogether; found.length === 0 && reached <= last; width *= 8) {
      const from = worker(reached);
      reached = Math.min(reached + width, last + 1);
      found = await this.#tx.list({ from, end: worker(reached), limit: filedTogether });
    }
    const records = found.map((entry) => readRecord(entry, Number(entry.key.slice(-16))));
    const end = records.length < filedTogether ? reached - 1 : (records.at(-1)?.record.workerId ?? last);
    const changes = records
      .filter(({ band }) => band !== undefined && band !== name)
      .map((before) => changeOf(this.#keys, { before, after: before.record, band: name }));
    const bands = this.#bands.map((band) => (band === next ? { ...band, filed: end + 1 } : band));
    await this.#put(bands, changes);
    return end === last && more.length === 0;
  }

  async #put(bands: readonly Band[], changes: readonly KeyChange[]): Promise<void> {
    const { bands: key } = this.#keys;
    const value = JSON.stringify(bands);
    const own: KeyChange = { expected: [this.expected], writes: [{ key, value }] };
    const revision = await commit(this.#tx, this.#keys, this.#state, [own, ...changes]);
    this.#entry = { key, value, revision };
    this.#bands = bands;
  }
}
