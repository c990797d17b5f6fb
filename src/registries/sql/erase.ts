import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { Era } from "../../rule/era.ts";
import { together } from "../compare-and-set/decide.ts";
import { conditions, putNote, setEntry, type SqlNamespace, stay } from "./namespace-state.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The removal of a namespace. Its tables stay, and the row that names their version: to drop them takes other rights,
 * some databases commit before it, and one of them has the rows of Java processes.
 *
 * It locks rows in the order of other writers: the era, the namespace, then records with their rows and their history.
 */

/** Rows of each table that one transaction deletes. */
const most = 500;

/** `StoreAttempt.erase`. `namespace`: its name. */
export async function erase(state: SqlNamespace, namespace: string, note: Era | undefined): Promise<boolean> {
  await checkMarks(state, namespace);
  const { tx } = state;
  const isDone = await tx.atomically(async () => {
    const [, deleted] = await together([holdSealed(state), eraseSome(tx)]);
    if (deleted.some((count) => count === most)) return false;
    await together([
      tx.change("meta.erase", {}),
      ...(note === undefined ? [] : putNote({ tx, entries: new Map() }, note)),
    ]);
    return true;
  });
  if (isDone && note === undefined) await dropTables(tx);
  return isDone;
}

/**
 * The namespace is gone by now: two of the databases commit in front of each of these statements. Where they are interrupted, some tables
 * stay, and hold nothing. Where Java processes have rows, their table stays.
 */
async function dropTables(tx: Transaction): Promise<void> {
  const foreign = await tx.get("assign.any-foreign");
  const drops = ["history.drop", "record.drop", ...(foreign === undefined ? ["assign.drop"] : []), "meta.drop"];
  for (const drop of drops) await tx.change(drop, {});
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

/**
 * Makes sure that the namespace is sealed as it was read, and stays so until the transaction ends. An operator who
 * ends its quarantine changes `opensAt`, and not the name of the era.
 */
async function holdSealed(state: SqlNamespace): Promise<void> {
  await together([
    state.tx.swap("meta.set-era", { value: state.era, ...conditions(state) }),
    setEntry(state, "opensAt", state.opensAt),
    stay(state),
  ]);
}

/**
 * Deletes some records, and some rows of each kind that belong to them; returns how many of each. Fewer than asked for
 * are the last ones: behind the lock, nobody writes them. The row of a Java process has an address in the place of our
 * marker.
 */
function eraseSome(tx: Transaction): Promise<readonly number[]> {
  const limit = { limit: most };
  return together([
    tx.all("record.lock-all").then(() => 0),
    tx.change("record.erase", limit),
    tx.change("assign.erase", limit),
    tx.change("history.erase", limit),
  ]);
}
