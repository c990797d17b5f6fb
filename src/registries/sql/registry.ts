import type { HistoryRow, Registry, WorkerRecord } from "../../rule/registry.ts";
import { noNamespace, shownMarked, shownRecord, type Stored } from "../../rule/window.ts";
import { unusedRecord } from "../../rule/pin.ts";
import { compareAndSetRegistry } from "../compare-and-set/registry.ts";
import type { RegistryOptions } from "../store-kind.ts";
import { type AssignRow, assignRow, foreignHolder, isForeign, isOurs, largestInt, readRow } from "./assign.ts";
import { SqlAttempt, type SqlMemory } from "./attempt.ts";
import { openDatabase, type SqlAddress } from "./execute.ts";
import { listClaims } from "./history.ts";
import { numberOf, shortenedLabel, type StoredRow, storedRowOf } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { checkElsewhere, elsewhereOf, scopeIn } from "./scope.ts";

/** Rows that one statement lists or deletes. */
const page = 500;

const repeatable = { repeatable: true };
const once = { repeatable: false };

/** Some worker IDs. `last`: where the next page begins; undefined where this is the last one. */
interface SqlPage {
  readonly records: readonly WorkerRecord[];
  readonly last: number | undefined;
}
const noPage: SqlPage = { records: [], last: undefined };

/**
 * A registry in tables of an SQL database; one of them is the table of westid. An operation reads what it needs without a lock,
 * decides, and writes in one short transaction that takes effect only where nothing of that has changed. The clock is the database's.
 * A server that may have forgotten what was acknowledged is in quarantine: `namespace-state.ts`. It connects at the first operation.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING.
 */
export async function sqlRegistry(address: SqlAddress, options: RegistryOptions): Promise<Registry> {
  const database = await openDatabase(address, options);
  const { dialect, where, migrations } = database;
  const memory: SqlMemory = { rush: { races: 0, at: 0 } };

  function attempt<Answer>(
    namespace: string,
    options: { readonly repeatable: boolean },
    work: (attempt: SqlAttempt) => Promise<Answer>,
  ): Promise<Answer> {
    return database.execute(namespace, options, (tried) => work(new SqlAttempt(tried, database, memory)));
  }

  /** Reads a namespace; answers `absent` for one that does not exist. */
  function read<Answer>(
    namespace: string,
    work: (attempt: SqlAttempt) => Promise<Answer>,
    absent: Answer,
  ): Promise<Answer> {
    return attempt(namespace, repeatable, (one) =>
      one.ifPresent(
        () => work(one),
        () => absent,
      ),
    );
  }

  const registry = compareAndSetRegistry<StoredRow>({
    kind: dialect.kind,
    title: `${dialect.title} ${where}`,
    labelOf: shortenedLabel,
    isHeld: ({ assignRow: row, record }) => isOurs(row, record),
    attempt,

    async *pages(namespace, { after = -1 }) {
      for (let from: number | undefined = after; from !== undefined;) {
        const begin: number = from;
        const { records, last } = await read(namespace, (one) => readPage(one, begin), noPage);
        yield records;
        from = last;
      }
    },

    worker: (namespace, workerId) =>
      read(
        namespace,
        async (one) => {
          const { clock, tx } = await one.present();
          const found = await one.record(workerId);
          if (found !== undefined) return shownRow(found, clock);
          const row = await readRow(tx, workerId);
          return row && shownForeign(workerId, row, clock);
        },
        undefined,
      ),

    history: (namespace, workerId, range = {}) =>
      read<readonly HistoryRow[]>(namespace, ({ tx }) => listClaims(tx, workerId, range), []),

    async prune(namespace, before) {
      let pruned = 0;
      for (let more = page; more === page; pruned += more) {
        [more] = await attempt(namespace, once, (one) =>
          one.ifPresent(
            async () => {
              // A namespace that was removed has its tables still.
              await one.present();
              return one.tx.write(() => [one.tx.change("history.prune", { before, limit: page })]);
            },
            () => {
              throw noNamespace(namespace);
            },
          ),
        );
      }
      return pruned;
    },

    scope: (namespace) => attempt(namespace, repeatable, ({ tx }) => scopeIn(tx, database, namespace)),

    rehearse: (namespace) => attempt(namespace, repeatable, async (one) => rehearse(await one.present())),

    ping() {
      const { namespace } = memory;
      return attempt(namespace ?? "default", repeatable, async ({ tx }) => {
        const row = await tx.get("session.durability");
        const [touched] = await tx.write(() => [
          tx.get("session.touch"),
          namespace !== undefined && tx.swap("meta.touch", {}),
        ]);
        const clock = numberOf(touched ?? {}, "clock");
        return { clock, ...dialect.durabilityOf(row ?? {}), schema: migrations.length };
      });
    },

    close: async () => database.close(),
  });
  return {
    ...registry,
    elsewhere: (namespace) => elsewhereOf(database, namespace),

    async init(request) {
      if (request.separate !== true) await checkElsewhere(database, request.namespace);
      return registry.init(request);
    },
  };
}

async function readPage(attempt: SqlAttempt, after: number): Promise<SqlPage> {
  const { clock, tx } = await attempt.present();
  const ours = (await tx.all("workers.page", { after, limit: page })).map(storedRowOf);
  const full = ours.length === page ? ours.at(-1)?.record.workerId : undefined;
  const theirs = await tx.all("workers.foreign", { after, last: full ?? largestInt, limit: page });
  const records = [
    ...ours.map((row) => shownRow(row, clock)),
    ...theirs.map((row) => shownForeign(numberOf(row, "worker_id"), assignRow(row, ""), clock)),
  ].toSorted((a, b) => a.workerId - b.workerId);
  if (theirs.length < page) return { records, last: full };
  const cut = records.slice(0, page);
  return { records: cut, last: cut.at(-1)?.workerId };
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
