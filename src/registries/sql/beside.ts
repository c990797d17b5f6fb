import type { PoolBounds } from "../../id/pool-bounds.ts";
import { Changed } from "../engine/operate.ts";
import { together } from "../together.ts";
import { isForeign, isOurs } from "./assign.ts";
import { conditions, setEntry, type SqlNamespace, stay } from "./namespace.ts";
import { columnsOf, foreign, inPool, readRecord, type StoredRow, storedRowOf } from "./records.ts";

/*
 * Java processes that also take worker IDs here. They look for a worker ID without a row, from 0 upwards, and cannot see that a window has
 * passed. So each claim beside them gives back a few worker IDs: the ones that have rested longest.
 */

/** How many worker IDs a claim gives back. */
const few = 4;

/** Such processes have taken worker IDs of this span, and the records do not show it yet. */
export class Foreigners extends Error {
  readonly span: PoolBounds;

  constructor(span: PoolBounds) {
    super("other programs have numbers of the pool");
    this.span = span;
  }
}

/** Notes that such processes take worker IDs here. @throws Changed */
export async function noteBeside(state: SqlNamespace): Promise<never> {
  await state.tx.write(() => [stay(state), setEntry(state, "beside", 1)]);
  throw new Changed("those beside us were noted");
}

/** Lists the worker IDs of a span that such processes have taken as foreign, and notes that there are such processes. @throws Changed */
export async function noteForeigners(state: SqlNamespace, { first, last }: PoolBounds): Promise<never> {
  const { tx } = state;
  await tx.atomically(async () => {
    const [, added] = await together([stay(state), tx.change("assign.note-foreigners", { first, last })]);
    let noted = added;
    const kept = await readRecord(tx, first);
    if (kept !== undefined && isForeign(kept.assignRow, kept.record)) {
      await listAsForeign(state, kept);
      noted++;
    }
    if (noted > 0 && !state.beside) await setEntry(state, "beside", 1);
  });
  throw new Changed("foreigners were noted");
}

/** The worker IDs of a pool that have rested longest. No clock can still show a time in their windows. */
export async function restingNumbers(
  { tx, clock, made, beside }: SqlNamespace,
  pool: PoolBounds,
): Promise<readonly StoredRow[]> {
  const latest = clock - made.info.maxClockSkew;
  if (!beside || made.era.opensAt > latest) return [];
  const found = await tx.all("claim.oldest", { filed_under: inPool, ...pool, limit: few + 1 });
  return found.map(storedRowOf).filter(({ record }) => record.until <= latest);
}

/**
 * Gives a few worker IDs back: deletes their rows, and keeps their records. A holder that renews at the same moment keeps its worker ID, or
 * finds that its row is gone. Both write the record, and one of them is first.
 *
 * @throws Beaten, or the error of a driver with the same meaning, if another writer was faster.
 */
export async function giveBack(state: SqlNamespace, numbers: readonly StoredRow[]): Promise<void> {
  if (numbers.length === 0) return;
  const { tx } = state;
  await tx.write(() =>
    numbers
      .slice(0, few)
      .flatMap((kept) => [
        listAsForeign(state, kept),
        isOurs(kept.assignRow, kept.record) &&
          tx.swap("assign.remove", { worker_id: kept.record.workerId, ...kept.assignRow }),
      ]),
  );
}

function listAsForeign(state: SqlNamespace, { record, version }: StoredRow): Promise<void> {
  return state.tx.swap("record.put", { ...columnsOf(record, foreign), ...conditions(state), version });
}
