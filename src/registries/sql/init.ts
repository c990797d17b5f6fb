import { defaultLimits, type InitRequest } from "../../core/registry.ts";
import { otherSchema, type Place } from "./errors.ts";
import { maybeText, numberOf } from "./records.ts";
import { type Names, named } from "./statements.ts";
import { Raced, type Unit } from "./unit.ts";

/** A dialect's schema, step by step; the first makes version 1. */
export type Migrations = readonly (readonly string[])[];

/**
 * Makes or upgrades the tables of a namespace, and notes what is fixed for it where nobody did. Some databases commit each statement
 * of a schema by itself: each may be done again, and the version is noted last.
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
  if (isCurrent(await storedVersion(unit, table), known, place)) return;
  await unit.transaction(async () => {
    const lock = await unit.get("meta.lock", table);
    if (lock?.["locked"] !== 1) throw new Raced("another init");
    // Whoever had the lock may have done it.
    const stored = await storedVersion(unit, table);
    if (!isCurrent(stored, known, place)) {
      for (const statement of migrations.slice(stored?.value ?? 0).flat()) await unit.execute(statement);
      if (stored === undefined) await noteFixed(unit, request, known);
      else await unit.swap("meta.set", { name: "schema", value: String(known), version: stored.version });
    }
    await unit.all("meta.unlock", table);
  });
}

interface Version {
  readonly value: number;
  /** Of its row. */
  readonly version: number;
}

function isCurrent(stored: Version | undefined, known: number, place: Place): boolean {
  if (stored !== undefined && stored.value > known) throw otherSchema(place, stored.value, known);
  return stored?.value === known;
}

async function storedVersion(unit: Unit, table: { table_name: string }): Promise<Version | undefined> {
  const found = await unit.get("meta.exists", table);
  if (found?.["present"] !== 1) return undefined;
  const row = (await unit.all("meta.read")).find((row) => maybeText(row, "name") === "schema");
  return row && { value: Number(maybeText(row, "value")), version: numberOf(row, "version") };
}

async function noteFixed(unit: Unit, { layout, maxWindow, maxClockSkew }: InitRequest, schema: number): Promise<void> {
  const clock = await unit.get("session.clock");
  const beside = (await unit.get("assign.any-foreign")) !== undefined;
  await unit.change("meta.create", {
    schema: String(schema),
    layout,
    // No two eras bear the same number, even if this table was lost in between.
    era: String(numberOf(clock ?? {}, "clock")),
    max_window: String(maxWindow ?? defaultLimits.maxWindow),
    max_clock_skew: String(maxClockSkew ?? defaultLimits.maxClockSkew),
    beside: beside ? "1" : "0",
  });
}

/** The statements that `init` runs for a namespace where there is nothing yet, as one text. */
export function schemaText(migrations: Migrations, names: Names): string {
  return migrations
    .flat()
    .map((statement) => `${named(statement, names)};`)
    .join("\n\n");
}
