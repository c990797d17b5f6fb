import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { Era } from "../../rule/era.ts";
import { together } from "../together.ts";
import type { Dialect } from "./dialect.ts";
import { conditions, putNote, setEntry, setEra, type SqlNamespace, stay } from "./namespace.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The removal of a namespace. With a note of its name its tables stay, and the row that names their version. Without a note they go, where no
 * namespace of its name can be made anew between the deletion and the drop: it would lose what it has granted.
 *
 * It locks rows in the order of other writers: the era, the namespace, then records with their rows for Java processes and their history.
 */

/** Rows of each table that one transaction deletes. */
const most = 500;
/** How often it tries to drop the tables. */
const mostDrops = 2;

/** The records have a later use than the namespace remembers: that of a claim that was on its way when it was sealed. */
class LaterUse extends Error {
  readonly last: number;

  constructor(last: number) {
    super("a claim was on its way");
    this.last = last;
  }
}

/** The tables could not be dropped: the user may not, or somebody reads them. */
class Undropped extends Error {}

/**
 * Deletes some of what is stored of a namespace, which is sealed; once nothing else is left, the namespace itself, with `note` noted under its
 * name. Returns whether it is gone. `namespace`: its name.
 */
export async function erase(
  state: SqlNamespace,
  namespace: string,
  { note, dialect }: { readonly note: Era | undefined; readonly dialect: Dialect },
): Promise<boolean> {
  await checkMarks(state, namespace);
  const drops = note === undefined ? dialect.dropsTables?.(state.identity) : undefined;
  for (let tries = 1; ; tries++) {
    try {
      const isGone = await eraseIn(state, { namespace, note, drops: drops === "inside" && tries <= mostDrops });
      if (isGone && drops === "behind") await dropEmptyTables(state, namespace);
      return isGone;
    } catch (error) {
      if (error instanceof Undropped) continue;
      if (!(error instanceof LaterUse)) throw error;
      await state.tx.write(() => [setEra(state, { ...state.made.era, quarantineEnd: error.last })]);
      return false;
    }
  }
}

/** The same in one transaction. @throws LaterUse, Undropped */
async function eraseIn(
  state: SqlNamespace,
  { namespace, note, drops }: { readonly namespace: string; readonly note: Era | undefined; readonly drops: boolean },
): Promise<boolean> {
  const { tx, made } = state;
  return tx.atomically(async () => {
    const [, { last, isAll }] = await together([holdSealed(state), eraseSome(tx)]);
    if (last > made.era.quarantineEnd) throw new LaterUse(last);
    if (!isAll) return false;
    await together([
      tx.change("meta.erase", {}),
      ...(note === undefined ? [] : putNote({ tx, entries: new Map() }, note)),
    ]);
    if (drops) {
      await together([tx.all("meta.patience"), dropTables(state, namespace)]).catch((cause: unknown) => {
        throw new Undropped("the tables stay", { cause });
      });
    }
    return true;
  });
}

/** Drops the tables of a namespace that is gone, unless one of its name was made anew in them. Where this fails they stay, and hold nothing. */
async function dropEmptyTables(state: SqlNamespace, namespace: string): Promise<void> {
  const { tx } = state;
  try {
    const [, , left] = await together([tx.all("meta.patience"), tx.all("meta.lock-tables"), tx.all("meta.read")]);
    if (left.length === 1) await dropTables(state, namespace);
  } catch {
    // The namespace is removed, whatever becomes of them.
  }
  await tx.all("meta.unlock-tables").catch(() => undefined);
}

/** The table of westid stays where its programs have used it, or look for it. That with the version of all goes last. */
async function dropTables({ tx, beside }: SqlNamespace, namespace: string): Promise<void> {
  const stays = beside || namespace === "default" || (await tx.get("assign.any-foreign")) !== undefined;
  const tables = ["history", "window", ...(stays ? [] : ["assign"]), "meta"].map((table) => `{${table}}`);
  await tx.all("meta.drop-tables", {}, { tables: tables.join(", ") });
}

/**
 * Where Java processes were ever seen, the rows that keep them away stay until no clock can show a time in a window:
 * they would make the same IDs as a holder that does not know yet. Rows do not go by themselves, so the operator comes
 * again.
 * @throws SnowleaseError WORKER_ID_HELD
 */
async function checkMarks({ tx, beside, clock, made }: SqlNamespace, namespace: string): Promise<void> {
  if (!beside) return;
  const row = await tx.get("assign.last-use");
  const passed = Number(row?.["until_ms"] ?? 0) + made.info.maxClockSkew;
  if (passed <= clock) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Programs without windows (westid) take worker IDs of namespace \`${namespace}\`, too, and the last window that was granted in it ends at ${timeText(passed)} by the slowest clock: until then, its worker IDs stay marked as taken, and nothing is granted. Remove it again after that time.`,
    { namespace, retryAfterMs: passed - clock },
  );
}

/** Makes sure that the namespace is sealed as it was read, and stays so until the transaction ends. */
async function holdSealed(state: SqlNamespace): Promise<void> {
  const { era, opensAt } = state.made.era;
  await together([
    state.tx.swap("meta.set-era", { value: era, ...conditions(state) }),
    setEntry(state, "opensAt", opensAt),
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
