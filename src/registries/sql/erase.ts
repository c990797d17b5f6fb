import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { Era } from "../../rule/era.ts";
import { together } from "../together.ts";
import type { Dialect } from "./dialect.ts";
import type { SqlPlace } from "./errors.ts";
import { conditions, putNote, setEntry, setEra, type SqlNamespace, stay } from "./namespace-state.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The removal of a namespace. Where a note of it stays, so do its tables, and the row that names their version.
 *
 * It locks rows in the order of other writers: the era, the namespace, then records with their rows for Java processes and their history.
 */

/** Rows of each table that one transaction deletes. */
const most = 500;
/** How often the tables are to be dropped where readers are faster. */
const mostDrops = 5;

/** The records have a later use than the namespace remembers: that of a claim that was on its way when it was sealed. */
class LaterUse extends Error {
  readonly last: number;

  constructor(last: number) {
    super("a claim was on its way");
    this.last = last;
  }
}

/** `StoreAttempt.erase`. `namespace`: its name. */
export async function erase(state: SqlNamespace, namespace: string, note: Era | undefined): Promise<boolean> {
  await checkMarks(state, namespace);
  const { tx, era, opensAt, quarantineEnd } = state;
  try {
    return await tx.atomically(async () => {
      const [, { last, isAll }] = await together([holdSealed(state), eraseSome(tx)]);
      if (last > quarantineEnd) throw new LaterUse(last);
      if (!isAll) return false;
      await together([
        tx.change("meta.erase", {}),
        ...(note === undefined ? [] : putNote({ tx, entries: new Map() }, note)),
      ]);
      return true;
    });
  } catch (error) {
    if (!(error instanceof LaterUse)) throw error;
    await tx.write(() => [setEra(state, { era, opensAt, quarantineEnd: error.last })]);
    return false;
  }
}

/**
 * Drops the tables of a namespace that is gone: two of the databases commit in front of each of these statements. Where that is interrupted,
 * some tables stay, and hold nothing. The table that westid made, or uses, stays.
 * @throws SnowleaseError where they are left.
 */
export async function dropTables({ tx, beside }: SqlNamespace, dialect: Dialect, place: SqlPlace): Promise<void> {
  const { namespace } = place;
  for (let tries = 1; ; tries++) {
    try {
      await tx.atomically(async () => {
        const stays = beside || namespace === "default" || (await tx.get("assign.any-foreign")) !== undefined;
        const drops = ["history.drop", "record.drop", ...(stays ? [] : ["assign.drop"]), "meta.drop"];
        for (const drop of drops) await tx.change(drop, {});
      });
      return;
    } catch (error) {
      const meaning = dialect.meaningOf(error);
      // Another attempt at the whole would find no namespace, and be content.
      if (meaning?.raced && tries < mostDrops) continue;
      throw new SnowleaseError(
        meaning?.code ?? "REGISTRY_UNAVAILABLE",
        `Namespace \`${namespace}\` is removed from ${place.title} ${place.where}, and some of its empty tables are left (workerid_…_${namespace}), since they could not be dropped (${(error as Error).message}); drop them as their owner, or leave them.`,
        {},
        { cause: error },
      );
    }
  }
}

/**
 * Where Java processes were ever seen, the rows that keep them away stay until no clock can show a time in a window:
 * they would make the same IDs as a holder that does not know yet. Rows do not go by themselves, so the operator comes
 * again.
 * @throws SnowleaseError WORKER_ID_HELD
 */
async function checkMarks({ tx, beside, clock, info }: SqlNamespace, namespace: string): Promise<void> {
  if (!beside) return;
  const row = await tx.get("assign.last-use");
  const passed = Number(row?.["until_ms"] ?? 0) + info.maxClockSkew;
  if (passed <= clock) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Programs without windows (westid) take worker IDs of namespace \`${namespace}\`, too, and the last window that was granted in it ends at ${timeText(passed)} by the slowest clock: until then, its worker IDs stay marked as taken, and nothing is granted. Remove it again after that time.`,
    { namespace, retryAfterMs: passed - clock },
  );
}

/** Makes sure that the namespace is sealed as it was read, and stays so until the transaction ends. */
async function holdSealed(state: SqlNamespace): Promise<void> {
  await together([
    state.tx.swap("meta.set-era", { value: state.era, ...conditions(state) }),
    setEntry(state, "opensAt", state.opensAt),
    stay(state),
  ]);
}

/**
 * Deletes some records, and some rows of each kind that belong to them. `isAll`: these were the last ones, since behind the lock, no process
 * writes any. `last`: the end of the last window, or the highest fence. The row of a Java process has an address in the place of our marker.
 */
async function eraseSome(tx: Transaction): Promise<{ readonly last: number; readonly isAll: boolean }> {
  const limit = { limit: most };
  const [, use = {}, ...deleted] = await together([
    tx.all("record.lock-all"),
    tx.get("record.last-use"),
    tx.change("record.erase", limit),
    tx.change("assign.erase", limit),
    tx.change("history.erase", limit),
  ]);
  const last = Math.max(Number(use["until_ms"] ?? 0), Number(use["fence"] ?? 0));
  return { last, isAll: deleted.every((count) => count < most) };
}
