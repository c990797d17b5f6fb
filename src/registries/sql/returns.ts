import type { PoolBounds } from "../../id/pool-bounds.ts";
import { isOurs } from "./assign.ts";
import { searchBands } from "./bands.ts";
import { Beaten } from "../engine/operate.ts";
import { foreign, type StoredRow } from "./records.ts";
import type { SqlNamespace } from "./namespace-state.ts";
import { put } from "./write.ts";

/*
 * Numbers that go back to Java processes. These look for a number without a row, from 0 up, and cannot see that a window has passed.
 * Where there are such processes, each claim gives back a few numbers: the ones that have rested longest.
 */

/** How many numbers a claim gives back. */
const few = 4;

/**
 * The numbers that have rested longest, where no clock can show a time of their windows any more. None of a pool that begins above 0:
 * Java processes do not get that far.
 */
export async function restingNumbers(state: SqlNamespace, pool: PoolBounds): Promise<readonly StoredRow[]> {
  const latest = state.clock - state.info.maxClockSkew;
  if (!state.beside || pool.first > 0 || state.opensAt > latest) return [];
  const found = await searchBands(state, pool, "claim.oldest", { limit: few + 1 });
  return found.filter(({ record }) => record.until <= latest).toSorted((a, b) => a.record.until - b.record.until);
}

/**
 * Gives numbers back: deletes their rows, and keeps their records. A holder that renews at the same moment keeps its number, or finds
 * its row gone: both write its record, and one of them is first.
 */
export async function giveBack(state: SqlNamespace, numbers: readonly StoredRow[]): Promise<void> {
  if (numbers.length === 0) return;
  try {
    await state.tx.write(() =>
      numbers
        .slice(0, few)
        .flatMap((kept) => [
          put(state, kept, kept.record, { ...kept, filedUnder: foreign }),
          isOurs(kept.assignRow, kept.record) &&
            state.tx.swap("assign.remove", { worker_id: kept.record.workerId, ...kept.assignRow }),
        ]),
    );
  } catch (error) {
    // Nothing was changed: the next claim tries again.
    if (!(error instanceof Beaten)) throw error;
  }
}
