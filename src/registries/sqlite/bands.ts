import { type Band, bandAt, bandsIn, changedBands, cutBands, filedAtOnce, isUnfiled } from "../bands.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { SqliteRow } from "./driver.ts";
import type { SqliteStatements } from "./statements.ts";

/** The bands of one namespace during one transaction. */
export class SqliteBands {
  readonly #sql: SqliteStatements;
  #bands: readonly Band[];

  constructor(sql: SqliteStatements) {
    this.#sql = sql;
    // The columns have the names of a band's fields.
    this.#bands = sql.all("band.list") as readonly (SqliteRow & Band)[];
  }

  /** Cuts the bands at the limits of a pool, and files some of its records under their band. Returns whether all are filed. */
  prepare(pool: PoolBounds): boolean {
    this.#change(cutBands(this.#bands, pool));
    const next = bandsIn(this.#bands, pool).find(isUnfiled);
    if (next === undefined) return true;
    const filed = this.#file(next);
    this.#change(this.#bands.map((band) => (band === next ? { ...band, filed } : band)));
    return !bandsIn(this.#bands, pool).some(isUnfiled);
  }

  /** Puts a worker ID that is in no band into the band of its pool. */
  include(workerId: number, pool: PoolBounds): void {
    if (bandAt(this.#bands, workerId) === undefined) this.#change(cutBands(this.#bands, pool));
  }

  nameAt(workerId: number): string | undefined {
    return bandAt(this.#bands, workerId)?.name;
  }

  /** The names under which the records of a pool are filed. */
  namesIn(pool: PoolBounds): readonly string[] {
    return [...new Set(bandsIn(this.#bands, pool).map(({ name }) => name))];
  }

  /** Files the next few records of a band. Returns the first worker ID that it did not look at. */
  #file({ name, filed: first, last }: Band): number {
    const nth = this.#sql.get("band.nth", { first, last, skip: filedAtOnce - 1 })?.["worker_id"];
    const end = nth === undefined ? last : Number(nth);
    this.#sql.run("band.file", { first, last: end, name });
    return end + 1;
  }

  #change(bands: readonly Band[]): void {
    for (const { first, last, name, filed } of changedBands(this.#bands, bands)) {
      this.#sql.run("band.put", { first, last, name, filed });
    }
    this.#bands = bands;
  }
}
