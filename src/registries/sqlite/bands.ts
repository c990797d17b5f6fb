import { type Band, bandAt, bandsIn, changedBands, cutBands, filedAtOnce, isUnfiled } from "../bands.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { Sql } from "./database.ts";

/** The bands of one namespace inside one transaction. */
export class Bands {
  readonly #sql: Sql;
  readonly #namespaceId: number;
  #bands: readonly Band[];

  constructor(sql: Sql, namespaceId: number) {
    this.#sql = sql;
    this.#namespaceId = namespaceId;
    this.#bands = sql.all("band.list", { namespace_id: namespaceId }).map((row) => ({
      first: Number(row["first"]),
      last: Number(row["last"]),
      name: String(row["name"]),
      filed: Number(row["filed"]),
    }));
  }

  /** Cuts the bands at the limits of a pool, and files some of the records in it that are not where they belong. Returns whether all are. */
  prepare(pool: PoolBounds): boolean {
    this.#change(cutBands(this.#bands, pool));
    const next = bandsIn(this.#bands, pool).find(isUnfiled);
    if (next === undefined) return true;
    const filed = this.#file(next);
    this.#change(this.#bands.map((band) => (band === next ? { ...band, filed } : band)));
    return !bandsIn(this.#bands, pool).some(isUnfiled);
  }

  /** Sees to it that a number is in a band: that of its pool, where it is in none. */
  hold(workerId: number, pool: PoolBounds): true {
    if (bandAt(this.#bands, workerId) === undefined) this.#change(cutBands(this.#bands, pool));
    return true;
  }

  nameAt(workerId: number): string | undefined {
    return bandAt(this.#bands, workerId)?.name;
  }

  /** Under which names the records of a pool are filed. */
  namesIn(pool: PoolBounds): readonly string[] {
    return [...new Set(bandsIn(this.#bands, pool).map(({ name }) => name))];
  }

  /** Files the next few records of a band. Returns up to which number. */
  #file({ name, filed: first, last }: Band): number {
    const within = { namespace_id: this.#namespaceId, first };
    const nth = this.#sql.get("band.nth", { ...within, last, skip: filedAtOnce - 1 })?.["worker_id"];
    const end = nth === undefined ? last : Number(nth);
    this.#sql.run("band.file", { ...within, last: end, name });
    return end + 1;
  }

  #change(bands: readonly Band[]): void {
    for (const { first, last, name, filed } of changedBands(this.#bands, bands)) {
      this.#sql.run("band.put", { namespace_id: this.#namespaceId, first, last, name, filed });
    }
    this.#bands = bands;
  }
}
