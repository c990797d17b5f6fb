import { type Era, nextEra } from "../../rule/era.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { NamespaceInfo } from "../../rule/registry.ts";
import type { Dialect } from "./dialect.ts";
import { missingTables, otherSchema, type Place } from "./errors.ts";
import { maybeText, numberOf } from "./records.ts";
import type { Unit } from "./transaction.ts";

/** A row of the table of what is fixed. */
interface Entry {
  readonly value: string;
  readonly version: number;
}

/** What an operation begins with: one reading of what is fixed for a namespace, and of the server. */
export interface Space extends Era {
  readonly info: NamespaceInfo;
  /** The database's clock, Unix ms. */
  readonly clock: number;
  /** Which server this is. */
  readonly identity: string;
  /** Whether somebody was seen who keeps no window: what none of us held all the time may have been used by them. */
  readonly beside: boolean;
  readonly entries: ReadonlyMap<string, Entry>;
}

/** Before the names of pools. */
export const poolEntry = "pool:";

/** There from the first pin on that has an owner. */
export const ownedEntry = "owned";

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE where there is none, or one of another version. */
export async function readSpace(unit: Unit, place: Place, schema: number): Promise<Space> {
  const rows = await unit.all("meta.read");
  const entries = new Map<string, Entry>(
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

function numberIn(entries: ReadonlyMap<string, Entry>, name: string, otherwise?: number): number {
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
 * @throws Raced where somebody else noticed at once.
 */
export async function guard(unit: Unit, dialect: Dialect, space: Space): Promise<Space> {
  const { identity, entries, info, clock } = space;
  const stored = entries.get("identity");
  if (stored !== undefined && dialect.sameServer(stored.value, identity)) return space;
  const { era, quarantineEnd } = nextEra(space, clock, info);
  await unit.write(() =>
    Object.entries({ era, quarantine: quarantineEnd, identity }).map(([name, value]) => {
      const { version = 0 } = entries.get(name) ?? {};
      return unit.swap("meta.set", { name, value: String(value), version });
    }),
  );
  return { ...space, era, quarantineEnd };
}

/** What is fixed for a namespace, with its quarantine while that lasts. */
export function shownInfo({ info, clock, quarantineEnd }: Space): NamespaceInfo {
  return clock < quarantineEnd ? { ...info, quarantineUntil: quarantineEnd } : info;
}

/** @throws SnowleaseError QUARANTINE before its end. */
export function checkQuarantine({ clock, quarantineEnd }: Space, { title, where }: Place): void {
  if (clock >= quarantineEnd) return;
  const retryAfterMs = quarantineEnd - clock;
  throw new SnowleaseError(
    "QUARANTINE",
    `${title} ${where} is another server than the one that wrote last (promoted, moved or restored), and may have forgotten windows: nothing is granted for ${retryAfterMs} ms, until they have passed; wait.`,
    { retryAfterMs, until: quarantineEnd },
  );
}
