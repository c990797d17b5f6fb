import type { PoolBounds } from "../../id/pool-bounds.ts";
import { isOurs } from "./assign.ts";
import { namesIn } from "./bands.ts";
import { Raced } from "./dialect.ts";
import { foreign, type Kept, keptOf } from "./records.ts";
import type { Space } from "./namespace-state.ts";
import { together, type Unit } from "./transaction.ts";
import { put } from "./write.ts";

/*
 * Numbers that go back to Java processes, which start where no row is, count up from 0, and cannot see that a window has passed.
 * Where there are such processes, each claim gives back a few numbers of ours, the ones that have rested longest.
 */

/** How many numbers a claim gives back. */
const few = 4;

/**
 * Of the numbers that have rested longest those in whose windows no clock can show a time any more. None of a pool that begins above
 * 0: it is a band of ours alone.
 */
export async function restingNumbers(unit: Unit, space: Space, pool: PoolBounds): Promise<readonly Kept[]> {
  const latest = space.clock - space.info.maxClockSkew;
  if (!space.beside || pool.first > 0 || space.quarantineEnd > latest) return [];
  const rows = await together(
    namesIn(space, pool).map((filed) => unit.all("claim.oldest", { filed, ...pool, limit: few + 1 })),
  );
  const found = rows.flat().map(keptOf);
  return found.filter(({ record }) => record.until <= latest).toSorted((a, b) => a.record.until - b.record.until);
}

/**
 * Gives them back: their rows go, their records stay. A holder that renews at the same moment keeps its number, or finds the row
 * gone: its record is written by both, and one of them comes first.
 */
export async function giveBack(unit: Unit, space: Space, numbers: readonly Kept[]): Promise<void> {
  if (numbers.length === 0) return;
  try {
    await unit.write(() =>
      numbers
        .slice(0, few)
        .flatMap((kept) => [
          put(unit, space, kept, kept.record, { ...kept, filed: foreign }),
          isOurs(kept.row, kept.record) && unit.swap("assign.remove", { worker_id: kept.record.workerId, ...kept.row }),
        ]),
    );
  } catch (error) {
    // Nothing was changed: the next claim tries again.
    if (!(error instanceof Raced)) throw error;
  }
}
