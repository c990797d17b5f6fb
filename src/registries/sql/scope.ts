import { existsElsewhere } from "../../rule/scope.ts";
import type { SqlParameters, SqlRow } from "./dialect.ts";
import type { SqlDatabase } from "./database.ts";
import { entriesOf } from "./namespace.ts";
import { namesOf } from "./statements.ts";
import type { Transaction } from "./transaction.ts";

/*
 * One URL may lead two users to two schemas, so that each has a registry of its own. These reads ask the database where the tables are, and
 * whether there are other tables of the same name.
 */

/** `Registry.scope`. */
export async function scopeIn(tx: Transaction, database: SqlDatabase, namespace: string): Promise<string> {
  return `all who use ${await placeOf(tx, database, namespace)}`;
}

async function placeOf(tx: Transaction, database: SqlDatabase, namespace: string): Promise<string> {
  const { dialect, settings, where } = database;
  const schema = textIn(await tx.get("meta.schema", tableOf(database, namespace)), "schema_name");
  const inside = schema === "" ? "" : `schema \`${schema}\` of `;
  return `${inside}database \`${settings.database}\` on ${dialect.title} ${where}`;
}

function tableOf(database: SqlDatabase, namespace: string): SqlParameters {
  return { table_name: database.namesOf(namespace)["meta"] };
}

/**
 * Before the tables of a namespace are made: refuses to make them if there are other tables of the same name.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function checkElsewhere(database: SqlDatabase, namespace: string): Promise<void> {
  const ask = async (tx: Transaction): Promise<string | undefined> => {
    const found = await tx.get("meta.exists", tableOf(database, namespace));
    const entries = found?.["present"] === 1 ? entriesOf(await tx.all("meta.read")) : undefined;
    return entries?.has("layout") === true ? undefined : placeOf(tx, database, namespace);
  };
  const here = await database.execute(namespace, { repeatable: true }, ({ tx }) => ask(tx));
  const others = here === undefined ? [] : await elsewhereOf(database, namespace);
  if (here === undefined || others.length === 0) return;
  const naming =
    database.dialect.kind === "mysql" ? "name its database" : "name its database, and with `schema=` its schema,";
  throw existsElsewhere({ namespace, here, others, naming: `${naming} in the registry URL of every program` });
}

/** `Registry.elsewhere`. The answer is empty for a URL that names its schema. */
export async function elsewhereOf(database: SqlDatabase, namespace: string): Promise<readonly string[]> {
  if (database.settings.schema !== undefined) return [];
  const { others, databases } = await database.execute(namespace, { repeatable: true }, async ({ tx }) => ({
    others: await tablesIn(tx, namespace, database.namesOf(namespace)["meta"]),
    databases: await tx.all("meta.databases"),
  }));
  const found: string[] = [...others];
  for (const row of databases) {
    const name = textIn(row, "database_name");
    // If a database cannot be read, the work in this one goes on.
    const there = await database.visit(name, namespace, (tx) => tablesIn(tx, namespace)).catch(() => []);
    found.push(...there.map((schema) => `${schema} of database \`${name}\``));
  }
  return found;
}

/** The places with namespaces of this name. `own`: the table of this session, which does not count. */
async function tablesIn(tx: Transaction, namespace: string, own?: string): Promise<readonly string[]> {
  const rows = await tx.all("meta.elsewhere", { table_name: namesOf(namespace)["meta"], own_name: own ?? null });
  const found: string[] = [];
  for (const row of rows) {
    const schema = textIn(row, "schema_name");
    if (await isForgotten(tx, textIn(row, "place"))) continue;
    found.push(schema === "" ? `database \`${textIn(row, "database_name")}\`` : `schema \`${schema}\``);
  }
  return found;
}

/** Whether a removed namespace has left only its tables there. False if this user may not look there. */
async function isForgotten(tx: Transaction, place: string): Promise<boolean> {
  const looked = tx.all("meta.there", {}, { place });
  return looked.then(
    (rows) => rows.length === 0,
    () => false,
  );
}

/** Empty for NULL. */
function textIn(row: SqlRow | undefined, name: string): string {
  const value = row?.[name];
  return typeof value === "string" ? value : "";
}
