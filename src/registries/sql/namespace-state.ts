import { nextEra } from "../../rule/era.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { NamespaceState } from "../compare-and-set/store.ts";
import type { Dialect } from "./dialect.ts";
import { missingTables, otherSchema, type SqlPlace } from "./errors.ts";
import { maybeText, numberOf } from "./records.ts";
import type { Transaction } from "./transaction.ts";

/** A row of the table of what is fixed. */
interface MetaEntry {
  readonly value: string;
  readonly version: number;
}

/** What an operation begins with: one reading of what is fixed for a namespace, and of the server. */
export interface SqlNamespace extends NamespaceState {
  /** Which server this is. */
  readonly identity: string;
  /** Whether somebody was seen who keeps no window: what none of us held all the time may have been used by them. */
  readonly beside: boolean;
  readonly entries: ReadonlyMap<string, MetaEntry>;
}

/** Before the names of pools. */
export const poolEntry = "pool:";

/** There from the first pin on that has an owner. */
export const ownedEntry = "owned";

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE where there is none, or one of another version. */
export async function readNamespace(tx: Transaction, place: SqlPlace, schema: number): Promise<SqlNamespace> {
  const rows = await tx.all("meta.read");
  const entries = new Map<string, MetaEntry>(
    rows.map((row) => [
      maybeText(row, "name") ?? "",
      { value: maybeText(row, "value") ?? "", version: numberOf(row, "version") },
    ]),
  );
  const [first] = rows;
  const layout = entries.get("layout")?.value;
  if (first === undefined || layout === undefined) throw missingTables(place);
  const stored = numberIn(entries, "schema", 0);
  if (stored !== schema) throw otherSchema(place, stored, schema);
  return {
    info: { layout, maxWindow: numberIn(entries, "maxWindow"), maxClockSkew: numberIn(entries, "maxClockSkew") },
    clock: numberOf(first, "clock"),
    identity: maybeText(first, "identity") ?? "",
    era: numberIn(entries, "era"),
    quarantineEnd: numberIn(entries, "quarantine"),
    beside: entries.get("beside")?.value === "1",
    entries,
  };
}

function numberIn(entries: ReadonlyMap<string, MetaEntry>, name: string, otherwise?: number): number {
  const number = Number(entries.get(name)?.value ?? otherwise ?? Number.NaN);
  if (Number.isSafeInteger(number)) return number;
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry keeps no number as \`${name}\` of the namespace, which Snowlease wrote there: put it right in its table.`,
  );
}

/**
 * A server that is not the one that wrote last may lack what that one acknowledged: a standby that lagged, a copy from a backup.
 * From the moment that is noticed, nothing is granted or renewed until every window has passed that may ever have been granted.
 * @throws Beaten where somebody else noticed at once.
 */
export async function guard(tx: Transaction, dialect: Dialect, state: SqlNamespace): Promise<SqlNamespace> {
  const { identity, entries, info, clock } = state;
  const stored = entries.get("identity");
  if (stored !== undefined && dialect.sameServer(stored.value, identity)) return state;
  const { era, quarantineEnd } = nextEra(state, clock, info);
  await tx.write(() =>
    Object.entries({ era, quarantine: quarantineEnd, identity }).map(([name, value]) => {
      const { version = 0 } = entries.get(name) ?? {};
      return tx.swap("meta.set", { name, value: String(value), version });
    }),
  );
  return { ...state, era, quarantineEnd };
}
