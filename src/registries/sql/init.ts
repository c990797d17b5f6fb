import { defaultLimits, type InitRequest } from "../../core/registry.ts";
import { type Dialect, Raced } from "./dialect.ts";
import { otherSchema, type Place } from "./errors.ts";
import { maybeText, numberOf } from "./records.ts";
import { loadMigrations, type Names, named, namesOf } from "./statements.ts";
import type { Unit } from "./unit.ts";

/** A dialect's schema, step by step; the first makes version 1. */
export type Migrations = readonly (readonly string[])[];

/**
 * Makes or upgrades the tables of a namespace where that is needed, and notes what is fixed for it where nobody did. Some databases
 * commit each statement of a schema by itself: each may be run again, and the last of a step notes its version.
 */
export async function makeTables(
  unit: Unit,
  place: Place,
  migrations: Migrations,
  names: Names,
  request: InitRequest,
): Promise<void> {
  const known = migrations.length;
  const table = { table_name: names["meta"] ?? "" };
  let found = await look(unit, table);
  if (found.schema > known) throw otherSchema(place, found.schema, known);
  if (found.schema < known) {
    await unit.transaction(async () => {
      const lock = await unit.get("meta.lock", table);
      if (lock?.["locked"] !== 1) throw new Raced("another init");
      // Whoever had the lock may have done it.
      found = await look(unit, table);
      for (const statement of migrations.slice(found.schema).flat()) await unit.execute(statement);
      await unit.all("meta.unlock", table);
    });
  }
  if (!found.fixed) await noteFixed(unit, request);
}

/** What is there: the version of the tables, 0 where there are none, and whether it is noted what is fixed. */
async function look(unit: Unit, table: { table_name: string }): Promise<{ schema: number; fixed: boolean }> {
  const there = await unit.get("meta.exists", table);
  if (there?.["present"] !== 1) return { schema: 0, fixed: false };
  const entries = new Map(
    (await unit.all("meta.read")).map((row) => [maybeText(row, "name"), maybeText(row, "value")]),
  );
  return { schema: Number(entries.get("schema") ?? 0), fixed: entries.has("layout") };
}

async function noteFixed(unit: Unit, { layout, maxWindow, maxClockSkew }: InitRequest): Promise<void> {
  const clock = await unit.get("session.clock");
  const beside = (await unit.get("assign.any-foreign")) !== undefined;
  const fixed = {
    layout,
    // No two eras bear the same number, even if this table was lost in between.
    era: String(numberOf(clock ?? {}, "clock")),
    max_window: String(maxWindow ?? defaultLimits.maxWindow),
    max_clock_skew: String(maxClockSkew ?? defaultLimits.maxClockSkew),
    beside: beside ? "1" : "0",
  };
  await unit.write(() => [unit.change("meta.create", fixed)]);
}

/** What has to be run by hand for a namespace where `init` may not make tables: it then only notes what is fixed. */
export function schemaText(kind: Dialect["kind"], namespace: string): string {
  const names = namesOf(namespace);
  return loadMigrations(kind)
    .flat()
    .map((statement) => `${named(statement, names)};`)
    .join("\n\n");
}
