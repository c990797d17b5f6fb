import { z } from "zod";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { Stored } from "../../rule/window.ts";
import {
  eraFields,
  type StoredJson,
  metaFields,
  recordFields,
  recordJson,
  rowFields,
  storedOf,
  unknownFields,
} from "../record-json.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { VersionedRecord } from "../compare-and-set/store.ts";
import type { Node } from "./session.ts";
import { foreignNode, otherSchema } from "./errors.ts";

/** The version of the nodes: of their paths, and of their data. A field that older versions may ignore, but keep, does not change it. */
export const schemaVersion = 1;

const record = z.intersection(recordFields, z.object({ sticky: z.boolean() }));

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
  readonly json: StoredJson;
}

/** `Registry.receiptKey` lies beside what people may see. `before`: as in `eraBytes`. */
export function metaBytes({ info, receiptKey }: NewNamespace, before?: Node): Uint8Array {
  const known = { schema: schemaVersion, ...info, receiptKey };
  const unknown = before === undefined ? {} : (readJson(before, "meta") as StoredJson);
  return jsonBytes({ ...unknown, ...known });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function readMeta(node: Node, path: string): { readonly info: NamespaceInfo; readonly receiptKey: string } {
  const { schema, receiptKey, ...info } = read(metaFields, node, path);
  if (schema !== schemaVersion) throw otherSchema(path, schema, schemaVersion);
  return { info, receiptKey };
}

/** `before`: the node in whose place it is put. Fields of it that this version does not know are kept. */
export function eraBytes(stored: Era, before?: Node): Uint8Array {
  const { era, quarantineEnd, opensAt } = stored;
  const known = { era, quarantineEnd, opensAt };
  const unknown = before && unknownFields(readJson(before, "era") as StoredJson, [known]);
  return jsonBytes({ ...unknown, ...known });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE; also for a node that an operator deleted: with it, a quarantine may be gone. */
export function readEra(node: Node | undefined, path: string): Era {
  if (node === undefined) throw foreignNode(path, "nothing");
  return read(eraFields, node, path);
}

/** `before`: the record in whose place it is put. */
export function recordBytes(stored: Stored, sticky: boolean, before?: StoredNode): Uint8Array {
  return jsonBytes(recordJson(stored, { sticky }, before));
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for what is not the record of this worker ID */
export function readRecord(node: Node, path: string, workerId: number): StoredNode {
  const json = readJson(node, path);
  const { sticky, ...fields } = checked(record, json, path);
  if (fields.workerId !== workerId) throw foreignNode(path, `the record of worker ${fields.workerId}`);
  const { version } = node;
  return { record: storedOf(fields), version, sticky, json: json as StoredJson };
}

export function readRow(node: Node, path: string): HistoryRow {
  return read(rowFields, node, path);
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
