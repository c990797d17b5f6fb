import { z } from "zod";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { Stored } from "../../rule/window.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { VersionedRecord } from "../compare-and-set/store.ts";
import type { Node } from "./session.ts";
import { foreignNode, otherSchema } from "./errors.ts";

/*
 * Processes of several versions share the nodes. A newer one may have added fields: a reader leaves them out of what it returns, and
 * each write keeps them.
 */

/** The version of the nodes: of their paths, and of their data. A field that older versions may ignore, but keep, does not change it. */
export const schemaVersion = 1;

const holder = z.object({ host: z.string(), ip: z.string(), pid: z.number(), instance: z.string() });

const meta = z.object({
  schema: z.int(),
  id: z.string(),
  receiptKey: z.string(),
  layout: z.string(),
  maxWindow: z.int(),
  maxClockSkew: z.int(),
});

const era = z.object({ era: z.string(), quarantineEnd: z.int(), opensAt: z.int() });

const record = z.object({
  workerId: z.int(),
  fence: z.int(),
  token: z.string().optional(),
  from: z.int(),
  until: z.int(),
  seenClock: z.int(),
  clean: z.boolean(),
  knownFrom: z.int(),
  recents: z.object({ from: z.int(), bytes: z.base64() }).optional(),
  checkpoint: z.object({ timestamp: z.int(), sequence: z.int() }).optional(),
  holder: holder.optional(),
  claimedAt: z.int().optional(),
  releasedAt: z.int().optional(),
  pinned: z.string().optional(),
  owner: z.string().optional(),
  era: z.string().optional(),
  renewals: z.int().optional(),
  turn: z.string().optional(),
  sticky: z.boolean(),
});

const row = z.object({
  workerId: z.int(),
  fence: z.int(),
  from: z.int(),
  until: z.int(),
  continuedFrom: z.int().optional(),
  holder,
  claimedAt: z.int(),
  endedAt: z.int(),
  end: z.enum(["released", "forced", "reset", "taken-over"]),
});

const rest = z.object({ first: z.int(), last: z.int(), until: z.int(), removed: z.int() });

/** A note about the idle numbers of a bucket, from `first` to `last`. */
export interface Rest {
  readonly first: number;
  readonly last: number;
  /** None of them comes free before, Unix ms. */
  readonly until: number;
  /** How many ephemeral nodes of the bucket had been removed by then. */
  readonly removed: number;
}

/** A record as a node. Its token is a hash of the holder's token. */
export interface StoredNode extends VersionedRecord {
  /** The node's version, which the next write expects. */
  readonly version: number;
  /** Whether the host of the last holder has a node that names this worker ID. */
  readonly sticky: boolean;
  /** The node's data as it was read. */
  readonly json: Readonly<Record<string, unknown>>;
}

/** `Registry.receiptKey` lies beside what people may see. `before`: as in `eraBytes`. */
export function metaBytes({ info, receiptKey }: NewNamespace, before?: Node): Uint8Array {
  const unknown = before === undefined ? {} : (readJson(before, "meta") as Record<string, unknown>);
  return jsonBytes({ ...unknown, schema: schemaVersion, ...info, receiptKey });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function readMeta(node: Node, path: string): { readonly info: NamespaceInfo; readonly receiptKey: string } {
  const { schema, receiptKey, ...info } = read(meta, node, path);
  if (schema !== schemaVersion) throw otherSchema(path, schema, schemaVersion);
  return { info, receiptKey };
}

/** `before`: the node in whose place it is put. Fields of it that this version does not know are kept. */
export function eraBytes(stored: Era, before?: Node): Uint8Array {
  const { era, quarantineEnd, opensAt } = stored;
  const unknown = before === undefined ? {} : (readJson(before, "era") as Record<string, unknown>);
  return jsonBytes({ ...unknown, era, quarantineEnd, opensAt });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE; also for a node that an operator deleted: with it, a quarantine may be gone. */
export function readEra(node: Node | undefined, path: string): Era {
  if (node === undefined) throw foreignNode(path, "nothing");
  return read(era, node, path);
}

/** `before`: the record in whose place it is put. Fields of it that this version does not know are kept. */
export function recordBytes(stored: Stored, sticky: boolean, before?: StoredNode): Uint8Array {
  const { recents } = stored;
  const text = recents && { from: recents.from, bytes: Buffer.from(recents.bytes).toString("base64") };
  const known = { ...stored, recents: text, sticky };
  if (before === undefined) return jsonBytes(known);
  const unknown = Object.entries(before.json).filter(([name]) => !Object.hasOwn(record.shape, name));
  // A part that did not change is written as it was read, with fields of its own that are unknown.
  const parts = (["holder", "recents", "checkpoint"] as const).filter((name) => stored[name] === before.record[name]);
  const same = parts.map((name) => [name, before.json[name]] as const);
  return jsonBytes({ ...Object.fromEntries(unknown), ...known, ...Object.fromEntries(same) });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for what is not the record of this worker ID */
export function readRecord(node: Node, path: string, workerId: number): StoredNode {
  const json = readJson(node, path);
  const { recents: text, sticky, ...stored } = checked(record, json, path);
  if (stored.workerId !== workerId) throw foreignNode(path, `the record of worker ${stored.workerId}`);
  const recents = text && { from: text.from, bytes: Uint8Array.from(Buffer.from(text.bytes, "base64")) };
  const { version } = node;
  return { record: { ...stored, recents }, version, sticky, json: json as Record<string, unknown> };
}

export function readRow(node: Node, path: string): HistoryRow {
  return read(row, node, path);
}

/** Undefined for an empty note, and for one of another version. */
export function readRest({ data }: Node): Rest | undefined {
  try {
    return rest.safeParse(JSON.parse(new TextDecoder().decode(data))).data;
  } catch {
    return undefined;
  }
}

export function readNumber(node: Node, path: string): number {
  return read(z.int(), node, path);
}

/** A value as a node's data. */
export function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function read<Value>(schema: z.ZodType<Value>, node: Node, path: string): Value {
  return checked(schema, readJson(node, path), path);
}

function readJson({ data }: Node, path: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(data));
  } catch {
    throw foreignNode(path, "something that is not JSON");
  }
}

function checked<Value>(schema: z.ZodType<Value>, value: unknown, path: string): Value {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw foreignNode(path, `no proper record (${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""})`);
}
