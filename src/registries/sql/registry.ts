import type { HistoryRange, HistoryRow, Pong, Registry, WorkerRecord } from "../../rule/registry.ts";
import { noNamespace, shownMarked, shownRecord, type Stored } from "../../rule/window.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import type { CompareAndSetStore } from "../compare-and-set/store.ts";
import { type AssignRow, assignRow, foreignHolder, isForeign, isOurs } from "./assign.ts";
import { SqlAttempt, type SqlMemory } from "./attempt.ts";
import { dialectOf } from "./dialects.ts";
import { type SqlDatabase, type SqlOptions, openDatabase, type SqlAddress } from "./execute.ts";
import { listClaims } from "./history.ts";
import { numberOf, shortenedLabel, type StoredRow, storedRowOf } from "./records.ts";
import { rehearse } from "./rehearsal.ts";

/** Rows that one statement lists or deletes. */
const page = 500;

const repeatable = { repeatable: true };

/** Some worker IDs. `last`: where the next page begins; undefined where this is the last one. */
interface WorkerPage {
  readonly records: readonly WorkerRecord[];
  readonly last: number | undefined;
}

/**
 * A registry in tables of an SQL database; one of them is the table of westid. An operation reads what it needs without a lock,
 * decides, and writes in one short transaction that takes effect only where nothing of that has changed. The clock is the database's.
 * A server that may have forgotten what was acknowledged is in quarantine: `namespace-state.ts`. It connects at the first operation.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function sqlRegistry(address: SqlAddress, options: SqlOptions): Promise<Registry> {
  const dialect = await dialectOf(address.kind);
  return compareAndSetRegistry(new SqlStore(await openDatabase(dialect, address, options)));
}

class SqlStore implements CompareAndSetStore<StoredRow> {
  readonly kind: string;
  readonly title: string;
  readonly pinsTogether = true;
  readonly labelOf: typeof shortenedLabel = shortenedLabel;
  readonly #database: SqlDatabase;
  readonly #memory: SqlMemory = { rush: { races: 0, at: 0 } };

  constructor(database: SqlDatabase) {
    this.#database = database;
    this.kind = database.dialect.kind;
    this.title = `${database.dialect.title} ${database.where}`;
  }

  isHeld({ assignRow, record }: StoredRow): boolean {
    return isOurs(assignRow, record);
  }

  attempt<Answer>(
    namespace: string,
    options: { readonly repeatable: boolean },
    work: (attempt: SqlAttempt) => Promise<Answer>,
  ): Promise<Answer> {
    return this.#database.execute(namespace, options, (tried) =>
      work(new SqlAttempt(tried, this.#database, this.#memory)),
    );
  }

  async *pages(
    namespace: string,
    { after = -1 }: { readonly after?: number | undefined },
  ): AsyncGenerator<readonly WorkerRecord[], void, undefined> {
    for (let next: number | undefined = after; next !== undefined;) {
      const from: number = next;
      const { records, last } = await this.attempt(namespace, repeatable, (attempt) =>
        attempt.ifPresent(
          () => readPage(attempt, from),
          () => ({ records: [], last: undefined }),
        ),
      );
      yield records;
      next = last;
    }
  }

  worker(namespace: string, workerId: number): Promise<WorkerRecord | undefined> {
    return this.attempt(namespace, repeatable, (attempt) =>
      attempt.ifPresent(
        async () => {
          const { clock } = await attempt.present();
          const found = await attempt.record(workerId);
          if (found !== undefined) return shownRow(found, clock);
          const row = await attempt.tx.get("assign.get", { worker_id: workerId });
          return row && shownForeign(workerId, assignRow(row, ""), clock);
        },
        () => undefined,
      ),
    );
  }

  history(namespace: string, workerId: number, range: HistoryRange = {}): Promise<readonly HistoryRow[]> {
    return this.attempt(namespace, repeatable, (attempt) =>
      attempt.ifPresent<readonly HistoryRow[]>(
        () => listClaims(attempt.tx, workerId, range),
        () => [],
      ),
    );
  }

  async prune(namespace: string, before: number): Promise<number> {
    let pruned = 0;
    for (let more = page; more === page; pruned += more) {
      [more] = await this.attempt(namespace, { repeatable: false }, (attempt) =>
        attempt.ifPresent(
          () => attempt.tx.write(() => [attempt.tx.change("history.prune", { before, limit: page })]),
          () => {
            throw noNamespace(namespace);
          },
        ),
      );
    }
    return pruned;
  }

  rehearse(namespace: string): Promise<void> {
    return this.attempt(namespace, repeatable, async (attempt) => rehearse(attempt.tx, await attempt.present()));
  }

  ping(): Promise<Pong> {
    const { dialect, migrations } = this.#database;
    const { namespace } = this.#memory;
    return this.attempt(namespace ?? "default", repeatable, async ({ tx }) => {
      const durability = await tx.get("session.promise");
      const [touched] = await tx.write(() => [
        tx.get("session.touch"),
        namespace !== undefined && tx.swap("meta.touch", {}),
      ]);
      const clock = numberOf(touched ?? {}, "clock");
      return { clock, promise: dialect.promiseOf(durability ?? {}), schema: migrations.length };
    });
  }

  async close(): Promise<void> {
    this.#database.close();
  }
}

async function readPage(attempt: SqlAttempt, after: number): Promise<WorkerPage> {
  const { tx } = attempt;
  const { clock } = await attempt.present();
  const ours = (await tx.all("workers.page", { after, limit: page })).map(storedRowOf);
  const full = ours.length === page ? ours.at(-1)?.record.workerId : undefined;
  const span = { after, last: full ?? Number.MAX_SAFE_INTEGER, limit: page };
  const theirs = await tx.all("workers.foreign", span);
  const records = [
    ...ours.map((row) => shownRow(row, clock)),
    ...theirs.map((row) => shownForeign(numberOf(row, "worker_id"), assignRow(row, ""), clock)),
  ].toSorted((a, b) => a.workerId - b.workerId);
  const cut = theirs.length === page ? records.slice(0, page) : records;
  return { records: cut, last: theirs.length === page ? cut.at(-1)?.workerId : full };
}

function shownRow({ record, assignRow: row }: StoredRow, clock: number): WorkerRecord {
  if (isForeign(row, record)) return shownForeign(record.workerId, row, clock, record);
  const shown = shownRecord(record, clock);
  return row === undefined ? shown : shownMarked(shown);
}

function shownForeign(
  workerId: number,
  row: AssignRow | undefined,
  clock: number,
  record: Stored = unusedRecord(workerId),
): WorkerRecord {
  const holder = row && foreignHolder(row);
  return { ...shownRecord(record, clock), state: "foreign", holder };
}
