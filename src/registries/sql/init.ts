import type { NamespaceLimits } from "../../rule/limits.ts";
import { checkUnnoted } from "../../rule/namespace.ts";
import type { InitRequest } from "../../rule/registry.ts";
import { newNamespace } from "../../rule/new-namespace.ts";
import type { SqlDatabase } from "./execute.ts";
import { Beaten } from "../engine/operate.ts";
import { otherSchema, type SqlPlace } from "./errors.ts";
import { entriesOf, noteIn, putNote } from "./namespace-state.ts";
import { numberOf, textOf } from "./records.ts";
import { loadMigrations, type Names, named, namesOf, sessionStatements, type TablesPlace } from "./statements.ts";
import type { Transaction } from "./transaction.ts";
import { together } from "../together.ts";

/** A dialect's schema, step by step; the first makes version 1. */
export type Migrations = readonly (readonly string[])[];

/**
 * Creates or upgrades the tables of a namespace where that is needed, and notes what is fixed for it where that is missing. Some
 * databases commit each statement of a schema by itself: each can be repeated, and the last one of a step notes the step's version.
 * Where the table of windows was lost, or the table `meta` of a namespace with claims, a quarantine begins.
 */
export async function makeTables(
  tx: Transaction,
  place: SqlPlace,
  { migrations, namesOf }: Pick<SqlDatabase, "migrations" | "namesOf">,
  layout: string,
  request: Partial<NamespaceLimits> & Pick<InitRequest, "new">,
): Promise<void> {
  const names = namesOf(place.namespace);
  const known = migrations.length;
  const table = { table_name: names["meta"] ?? "" };
  let found = await look(tx, names);
  if (found.schema > known) throw otherSchema(place, found.schema, known);
  if (found.schema < known || found.lost.length > 0) {
    await tx.atomically(async () => {
      const lock = await tx.get("meta.lock", table);
      if (lock?.["locked"] !== 1) throw new Beaten("another init");
      // The process that had the lock before may have done it.
      found = await look(tx, names);
      const { identity, lost } = found;
      if (lost.includes("window") && identity !== undefined) {
        await tx.swap("meta.set", { name: "identity", value: "lost", version: identity });
      }
      const steps = lost.length > 0 ? migrations : migrations.slice(found.schema);
      for (const statement of steps.flat()) await tx.execute(statement);
      await tx.all("meta.unlock", table);
    });
  }
  if (found.fixed) return;
  if (request.new === true) checkUnnoted(place.namespace, found.noted?.quarantineEnd);
  await noteFixed(tx, layout, request);
}

/**
 * The tables that exist. `schema`: their version; 0 where there are none. `lost`: those that existed before. `fixed`: whether `meta` says
 * what is fixed for the namespace. `identity`: the version of the row that names the server which wrote last.
 */
async function look(tx: Transaction, names: Names) {
  const isThere = async (name: string): Promise<boolean> =>
    (await tx.get("meta.exists", { table_name: names[name] ?? "" }))?.["present"] === 1;
  const tables = ["assign", "window", "history"];
  const [meta, ...others] = await together(["meta", ...tables].map(isThere));
  if (meta !== true) return { schema: 0, lost: [] as string[], fixed: false, noted: undefined, identity: undefined };
  const rows = new Map((await tx.all("meta.read")).map((row) => [textOf(row, "name"), row]));
  const [schema, identity] = [rows.get("schema"), rows.get("identity")];
  return {
    schema: schema === undefined ? 0 : Number(textOf(schema, "value")),
    lost: schema === undefined ? [] : tables.filter((_, i) => others[i] !== true),
    fixed: rows.has("layout"),
    noted: noteIn(entriesOf([...rows.values()])),
    identity: identity && numberOf(identity, "version"),
  };
}

async function noteFixed(tx: Transaction, layout: string, limits: Partial<NamespaceLimits>): Promise<void> {
  const [rows, foreign, used] = await together([
    tx.all("meta.read"),
    tx.get("assign.any-foreign"),
    tx.get("meta.used"),
  ]);
  const [row = {}] = rows;
  const entries = entriesOf(rows);
  const noted = noteIn(entries);
  const { info, era, receiptKey } = newNamespace(layout, limits, numberOf(row, "clock"), noted);
  const fixed = {
    ...info,
    receiptKey,
    // Where this table was lost, a quarantine that it may have recorded was lost with it.
    identity: used === undefined ? textOf(row, "identity") : "lost",
    beside: foreign === undefined ? 0 : 1,
  };
  await tx.write(() => [
    ...putNote({ tx, entries }, era),
    ...Object.entries(fixed).map(([name, value]) => tx.change("meta.add", { name, value: String(value) })),
  ]);
}

/** The statements that an operator runs where `init` may not create tables: `init` then only notes what is fixed. */
export function schemaText(place: TablesPlace, namespace: string): string {
  const { kind, schema } = place;
  const names = { ...namesOf(namespace, place), ...(schema !== undefined && { schema }) };
  const inside = kind === "oracle" && schema !== undefined ? [sessionStatements(kind)("schema")] : [];
  return [...inside, ...loadMigrations(kind).flat()].map((statement) => `${named(statement, names)};`).join("\n\n");
}
