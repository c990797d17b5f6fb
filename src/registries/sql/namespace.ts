import { SnowleaseError } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { type Era, nextEra } from "../../rule/era.ts";
import { eraMark, type NewNamespace } from "../../rule/new-namespace.ts";
import { Changed } from "../engine/operate.ts";
import { stateOf } from "../engine/port.ts";
import { together } from "../together.ts";
import type { Dialect, SqlRow } from "./dialect.ts";
import { missingTables, otherSchema, type SqlPlace } from "./errors.ts";
import { numberOf, textOf } from "./records.ts";
import type { Transaction } from "./transaction.ts";

export type MetaEntries = ReadonlyMap<string, { readonly value: string; readonly version: number }>;

/** The first read of an operation: the table `meta` of the namespace, and the identity of this server. */
export interface SqlNamespace {
  readonly made: NewNamespace;
  /** The server's clock, Unix ms. */
  readonly clock: number;
  /** The identity of this server. */
  readonly identity: string;
  /** Whether programs without windows were seen. They may have used any worker ID that Snowlease did not hold all the time. */
  readonly beside: boolean;
  /** The rows of the table `meta`. */
  readonly entries: MetaEntries;
  /** The transaction of the attempt that read this. */
  readonly tx: Transaction;
}

const nextPrefix = "next:";

/**
 * The entry that says where the search for an unused worker ID of a pool begins. Only a search of the whole pool finds an unused worker ID
 * before that place.
 */
export function nextEntry({ first, last }: PoolBounds): string {
  return `${nextPrefix}${first}-${last}`;
}

/** The pool of such an entry. Undefined for any other entry. */
export function poolOfNext(entry: string): PoolBounds | undefined {
  if (!entry.startsWith(nextPrefix)) return undefined;
  const [first = 0, last = 0] = entry.slice(nextPrefix.length).split("-").map(Number);
  return { first, last };
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE if the tables are missing, or have another version. */
export async function readNamespace(tx: Transaction, place: SqlPlace, schema: number): Promise<SqlNamespace> {
  const rows = await tx.all("meta.read");
  const entries = entriesOf(rows);
  const [first] = rows;
  const layout = entries.get("layout")?.value;
  if (first === undefined || layout === undefined) throw missingTables(place);
  const stored = numberIn(entries, "schema", 0);
  if (stored !== schema) throw otherSchema(place, stored, schema);
  const info = {
    id: textIn(entries, "id", /^[\da-f]{32}$/),
    layout,
    maxWindow: numberIn(entries, "maxWindow"),
    maxClockSkew: numberIn(entries, "maxClockSkew"),
  };
  const receiptKey = textIn(entries, "receiptKey", /^[\da-f]{64}$/);
  return {
    made: { info, era: eraIn(entries), receiptKey },
    clock: numberOf(first, "clock"),
    identity: textOf(first, "identity"),
    beside: isBeside(entries),
    entries,
    tx,
  };
}

export function entriesOf(rows: readonly SqlRow[]): MetaEntries {
  return new Map(
    rows.map((row) => [textOf(row, "name"), { value: textOf(row, "value"), version: numberOf(row, "version") }]),
  );
}

export function isBeside(entries: MetaEntries): boolean {
  return entries.get("beside")?.value === "1";
}

function eraIn(entries: MetaEntries): Era {
  return {
    era: textIn(entries, "era", /^\d{1,16}-[\da-f]{1,64}$/),
    quarantineEnd: numberIn(entries, "quarantineEnd"),
    opensAt: numberIn(entries, "opensAt"),
  };
}

/** The era that is noted if there is no namespace: `rule/unknown-namespace.ts`. */
export function noteIn(entries: MetaEntries): Era | undefined {
  return entries.has("era") ? eraIn(entries) : undefined;
}

/** Notes an era, in one transaction. It is beaten by an operation that makes the namespace, because that writes the row of the era, too. */
export function putNote(
  namespace: Pick<SqlNamespace, "tx" | "entries">,
  { era, quarantineEnd, opensAt }: Era,
): readonly Promise<void>[] {
  return [
    setEntry(namespace, "era", era),
    setEntry(namespace, "quarantineEnd", quarantineEnd),
    setEntry(namespace, "opensAt", opensAt),
  ];
}

function numberIn(entries: MetaEntries, name: string, otherwise = Number.NaN): number {
  const number = Number(entries.get(name)?.value ?? otherwise);
  if (Number.isSafeInteger(number)) return number;
  throw oddEntry("number", name);
}

function textIn(entries: MetaEntries, name: string, form: RegExp): string {
  const text = entries.get(name)?.value ?? "";
  if (form.test(text)) return text;
  throw oddEntry("text of its form", name);
}

function oddEntry(kind: string, name: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The registry keeps no ${kind} as \`${name}\` of the namespace, which Snowlease wrote there: put it right in its table.`,
  );
}

/** A write takes effect only in the era and on the server that were read. */
export function conditions({ identity, made }: SqlNamespace): { identity: string; present_era: string } {
  return { identity, present_era: made.era.era };
}

/**
 * Begins a quarantine if another server wrote last. This server may lack writes that the other acknowledged: it is a standby that lagged,
 * or a restored backup. From then on, nothing is granted or renewed until every window that may ever have been granted has passed.
 * @throws Beaten if another process noticed this at the same time. Changed if this call had to write.
 */
export async function guard(state: SqlNamespace, dialect: Dialect): Promise<void> {
  const { identity, entries, made, clock, tx } = state;
  const stored = entries.get("identity");
  if (stored !== undefined && dialect.sameServer(stored.value, identity)) return;
  const isOther = stored === undefined || dialect.goesOn?.(stored.value, identity) !== true;
  const begins = isOther ? nextEra(stateOf(made, clock), clock, made.info, eraMark) : undefined;
  await tx.write(() => [begins && setEra(state, begins), setEntry(state, "identity", identity)]);
  throw new Changed(isOther ? "a quarantine began" : "the nodes of the cluster changed");
}

/**
 * Stores another era in place of the one that was read. It takes no effect if the server that was read serves only reads, such as a replica
 * behind a proxy.
 */
export async function setEra(state: SqlNamespace, { era, quarantineEnd, opensAt }: Era): Promise<void> {
  await together([
    state.tx.swap("meta.set-era", { value: era, ...conditions(state) }),
    setEntry(state, "quarantineEnd", quarantineEnd),
    setEntry(state, "opensAt", opensAt),
  ]);
}

/** Stores another era in place of the one that was read. If the id is new, it also stores everything that identifies the namespace. */
export function putNamespace(
  state: SqlNamespace,
  { info: { id = "" }, era, receiptKey }: NewNamespace,
): readonly Promise<void>[] {
  // Otherwise a copy on another server would begin a second quarantine.
  const own = id === state.made.info.id ? {} : { id, receiptKey, identity: state.identity };
  return [setEra(state, era), ...Object.entries(own).map(([name, value]) => setEntry(state, name, value))];
}

/**
 * Makes sure that the namespace exists until the transaction ends: a removal waits, or this write is beaten. For writes that do not depend
 * on the era: a process that was stopped may send them after a removal.
 */
export function stay({ tx, made }: SqlNamespace): Promise<void> {
  return tx.swap("meta.hold", { id: made.info.id });
}

/** Changes an entry if it is as it was read. Adds it if there was none. */
export async function setEntry(
  { tx, entries }: Pick<SqlNamespace, "tx" | "entries">,
  name: string,
  value: string | number,
): Promise<void> {
  const before = entries.get(name);
  const entry = { name, value: String(value) };
  if (before === undefined) await tx.change("meta.add", entry);
  else await tx.swap("meta.set", { ...entry, version: before.version });
}
