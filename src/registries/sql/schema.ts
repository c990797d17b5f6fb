import { monotonic } from "../../clock.ts";
import { Beaten } from "../engine/operate.ts";
import { together } from "../together.ts";
import type { SqlDatabase } from "./database.ts";
import { otherSchema, type SqlPlace } from "./errors.ts";
import { numberOf, textOf } from "./records.ts";
import { loadSchema, type Names, named, namesOf, sessionStatements, type TablesPlace } from "./statements.ts";
import type { Transaction } from "./transaction.ts";

/** How often it tries to lock the tables of a deleted namespace, and how long it waits in between, ms. */
const [lockTries, lockPause] = [5, 50];

/**
 * Creates the missing tables of a namespace. Some databases commit each statement of a schema separately. So each statement can be
 * repeated, and the last one notes the version. If the table of windows was lost, the next claim begins a quarantine.
 */
export async function makeTables(
  tx: Transaction,
  place: SqlPlace,
  { schema, namesOf }: Pick<SqlDatabase, "schema" | "namesOf">,
): Promise<void> {
  const names = namesOf(place.namespace);
  const table = { table_name: names["meta"] ?? "" };
  const found = await look(tx, names);
  if (found.version > 0 && found.version !== schema.version) throw otherSchema(place, found.version, schema.version);
  if (found.version > 0 && found.lost.length === 0) return;
  await tx.atomically(async () => {
    const lock = await tx.get("meta.lock", table);
    if (lock?.["locked"] !== 1) throw new Beaten("another init");
    // The process that had the lock before may have created them.
    const { identity, lost } = await look(tx, names);
    if (lost.includes("window") && identity !== undefined) {
      await tx.swap("meta.set", { name: "identity", value: "lost", version: identity });
    }
    for (const statement of schema.statements) await tx.execute(statement);
    await tx.all("meta.unlock", table);
  });
}

/**
 * Reads which tables exist. `version`: the version of their schema, or 0 if there are none. `lost`: tables that existed before. `identity`:
 * the version of the row that names the server which wrote last.
 */
async function look(tx: Transaction, names: Names) {
  const isThere = async (name: string): Promise<boolean> =>
    (await tx.get("meta.exists", { table_name: names[name] ?? "" }))?.["present"] === 1;
  const tables = ["assign", "window", "history"];
  const [meta, ...others] = await together(["meta", ...tables].map(isThere));
  const rows = new Map(meta === true ? (await tx.all("meta.read")).map((row) => [textOf(row, "name"), row]) : []);
  const [version, identity] = [rows.get("schema"), rows.get("identity")];
  return {
    version: version === undefined ? 0 : Number(textOf(version, "value")),
    lost: version === undefined ? [] : tables.filter((_, i) => others[i] !== true),
    identity: identity && numberOf(identity, "version"),
  };
}

/**
 * Drops the tables of a deleted namespace, unless they contain a new namespace of this name, or another session reads them. If the drop
 * fails, the tables stay, and grant nothing. The table of westid stays `beside` Java processes: if any were seen, or if the URL says that
 * there are some.
 */
export async function dropTables(database: SqlDatabase, namespace: string, beside: boolean): Promise<void> {
  const { clock, operationTimeout } = database;
  const deadline = monotonic(clock) + operationTimeout;
  const mayDropAll = !beside && namespace !== "default";
  for (let tries = 1; tries <= lockTries; tries++) {
    try {
      return await database.attempt(namespace, deadline, ({ tx }) => dropEmpty(tx, mayDropAll));
    } catch (error) {
      // The namespace is removed, whether its tables stay or not.
      if (!(error instanceof Beaten)) return;
      await clock.sleep(lockPause);
    }
  }
}

async function dropEmpty(tx: Transaction, mayDropAll: boolean): Promise<void> {
  const locked = ["meta", ...(mayDropAll ? ["assign"] : []), "window", "history"].map((table) => `{${table}}`);
  try {
    await tx.atomically(async () => {
      await tx.all(
        "meta.lock-tables",
        {},
        {
          tables: locked.join(", "),
          written_tables: locked.map((table) => `${table} WRITE`).join(", "),
        },
      );
      // Only the row of the schema is left: there is no namespace, and no note of one.
      if ((await tx.all("meta.read")).length !== 1) return;
      const isForeign = mayDropAll && (await tx.get("assign.any-foreign")) !== undefined;
      // The table with the version is dropped last. So the next `init` can create the rest again after an interrupted drop.
      const [meta = "", ...others] = locked.filter((table) => !isForeign || table !== "{assign}");
      await tx.all("meta.drop-tables", {}, { tables: [...others, meta].join(", ") });
    });
  } finally {
    await tx.all("meta.unlock-tables").catch(() => undefined);
  }
}

/** The statements that an operator runs if `init` may not create tables. `init` then only notes the fixed properties. */
export function schemaText(place: TablesPlace, namespace: string): string {
  const { kind, schema } = place;
  const names = { ...namesOf(namespace, place), ...(schema !== undefined && { schema }) };
  const inside = kind === "oracle" && schema !== undefined ? [sessionStatements(kind)("schema")] : [];
  return [...inside, ...loadSchema(kind).statements].map((statement) => `${named(statement, names)};`).join("\n\n");
}
