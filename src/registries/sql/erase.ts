import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { Era } from "../../rule/era.ts";
import { together } from "../together.ts";
import { conditions, entriesOf, isBeside, putNote, setEntry, setEra, type SqlNamespace, stay } from "./namespace.ts";
import type { Transaction } from "./transaction.ts";

/*
 * The removal of a namespace. Its tables stay, with the row that names their version. `schema.ts` drops the tables if no note of the name
 * stays.
 *
 * The removal locks rows in the same order as other writers: the era, the namespace, then records with their rows for Java processes and
 * their history.
 */

/** How many rows of each table one transaction deletes. */
const most = 500;

/** The records show a later use than the namespace remembers: a claim was on its way when the namespace was sealed. */
class LaterUse extends Error {
  readonly last: number;

  constructor(last: number) {
    super("a claim was on its way");
    this.last = last;
  }
}

interface Erasure {
  /** The name of the namespace. */
  readonly namespace: string;
  /** The era to note under that name. Its tables then stay. */
  readonly note: Era | undefined;
  /** Whether the registry's URL says that Java processes take worker IDs here. */
  readonly beside: boolean;
}

/** What remains known of a deleted namespace. */
interface Erased {
  /** Whether Java processes were ever seen in it. */
  readonly beside: boolean;
}

/**
 * Deletes some rows of a sealed namespace. When nothing else is left, it deletes the namespace itself. Undefined if more is left.
 * @throws SnowleaseError WORKER_ID_HELD beside Java processes, while a clock may show a time in a window
 */
export async function erase(
  state: SqlNamespace,
  { namespace, note, beside: isToldBeside }: Erasure,
): Promise<Erased | undefined> {
  const { tx, made } = state;
  try {
    return await tx.atomically(async () => {
      // Once this has the locks, no claim can still add a record, or note that there are Java processes.
      const [, , use = {}, rows] = await together([
        holdSealed(state),
        tx.all("record.lock-all"),
        tx.get("record.last-use"),
        tx.all("meta.read"),
      ]);
      const until = Number(use["until_ms"] ?? 0);
      const last = Math.max(until, Number(use["fence"] ?? 0));
      if (last > made.era.quarantineEnd) throw new LaterUse(last);
      const beside = isToldBeside || isBeside(entriesOf(rows));
      if (beside) checkPassed(state, namespace, until);
      if (!(await eraseSome(tx))) return undefined;
      await together([
        tx.change("meta.erase", {}),
        ...(note === undefined ? [] : putNote({ tx, entries: new Map() }, note)),
      ]);
      return { beside };
    });
  } catch (error) {
    if (!(error instanceof LaterUse)) throw error;
    await tx.write(() => [setEra(state, { ...made.era, quarantineEnd: error.last })]);
    return undefined;
  }
}

/**
 * The rows that keep Java processes away stay until no clock can show a time in a window. Otherwise such a process makes the same IDs as a
 * holder that does not know of the removal yet. Nothing deletes the rows later, so the operator repeats the removal.
 * @throws SnowleaseError WORKER_ID_HELD
 */
function checkPassed({ clock, made }: SqlNamespace, namespace: string, until: number): void {
  const passed = until + made.info.maxClockSkew;
  if (passed <= clock) return;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `Programs without windows (westid) take worker IDs of namespace \`${namespace}\`, too, and the last window that was granted in it ends at ${timeText(passed)} by the slowest clock: until then, its worker IDs stay marked as taken, and nothing is granted. Remove it again after that time.`,
    { namespace, retryAfterMs: passed - clock },
  );
}

/** Makes sure that the namespace is sealed as it was read, and stays sealed until the transaction ends. */
async function holdSealed(state: SqlNamespace): Promise<void> {
  const { era, opensAt } = state.made.era;
  await together([
    state.tx.swap("meta.set-era", { value: era, ...conditions(state) }),
    setEntry(state, "opensAt", opensAt),
    stay(state),
  ]);
}

/**
 * Deletes some records, and some rows of each kind that belong to them. Returns whether these were the last ones. The row of a Java process
 * has an address in the place of our marker.
 */
async function eraseSome(tx: Transaction): Promise<boolean> {
  const limit = { limit: most };
  const deleted = await together([
    tx.change("record.erase", limit),
    tx.change("assign.erase", limit),
    tx.change("history.erase", limit),
  ]);
  return deleted.every((count) => count < most);
}
