import { Beaten } from "../engine/operate.ts";
import { together } from "../together.ts";
import type { SqlDatabase } from "./database.ts";
import { otherSchema, type SqlPlace } from "./errors.ts";
import { numberOf, textOf } from "./records.ts";
import { loadSchema, type Names, named, namesOf, sessionStatements, type TablesPlace } from "./statements.ts";
import type { Transaction } from "./transaction.ts";

/**
 * Creates the tables of a namespace where one is missing. Some databases commit each statement of a schema by itself: each can be repeated, and
 * the last one notes the version. Where the table of windows was lost, the next claim begins a quarantine.
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
    // The process that had the lock before may have done it.
    const { identity, lost } = await look(tx, names);
    if (lost.includes("window") && identity !== undefined) {
      await tx.swap("meta.set", { name: "identity", value: "lost", version: identity });
    }
    for (const statement of schema.statements) await tx.execute(statement);
    await tx.all("meta.unlock", table);
  });
}

/**
 * The tables that exist. `version`: of their schema; 0 where there are none. `lost`: those that existed before. `identity`: the version of
 * the row that names the server which wrote last.
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

/** The statements that an operator runs where `init` may not create tables: `init` then only notes what is fixed. */
export function schemaText(place: TablesPlace, namespace: string): string {
  const { kind, schema } = place;
  const names = { ...namesOf(namespace, place), ...(schema !== undefined && { schema }) };
  const inside = kind === "oracle" && schema !== undefined ? [sessionStatements(kind)("schema")] : [];
  return [...inside, ...loadSchema(kind).statements].map((statement) => `${named(statement, names)};`).join("\n\n");
}
