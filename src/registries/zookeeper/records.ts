import { z } from "zod";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { Standing } from "../engine/port.ts";
import {
  eraFields,
  type StoredJson,
  metaFields,
  recordFields,
  recordJson,
  rowFields,
  storedOf,
} from "../record-json.ts";
import type { Node } from "./session.ts";
import { foreignNode, otherSchema } from "./errors.ts";

/** The version of the nodes: of their paths and their data. A new field does not change it if older versions may ignore it, but keep it. */
export const schemaVersion = 2;

const version = z.object({ schema: z.int() });
const namespaceFields = z.intersection(metaFields, eraFields);

/** A record as a node. Its token is a hash of the holder's token. */
export interface StoredNode {
  readonly record: Stored;
  /** The node's version, which the next write expects. */
  readonly version: number;
  /** The node's data as it was read. */
  readonly json: StoredJson;
}

/**
 * The stored form of what stands under a name. `before`: the node of the same kind that this one replaces. Its fields that this version
 * does not know stay.
 */
export function standingBytes({ made, noted }: Standing, before?: Node): Uint8Array {
  const unknown = before && (readJson(before, "meta") as StoredJson);
  const known = made === undefined ? noted : { ...made.info, receiptKey: made.receiptKey, ...made.era };
  return jsonBytes({ ...unknown, schema: schemaVersion, ...known });
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function readStanding(node: Node, path: string): Standing {
  const json = readJson(node, path);
  const { schema: stored } = checked(version, json, path);
  if (stored !== schemaVersion) throw otherSchema(path, stored, schemaVersion);
  // Only a namespace has a layout.
  if (!Object.hasOwn(json as StoredJson, "layout")) return { noted: checked(eraFields, json, path) };
  const { schema: _, receiptKey, era, quarantineEnd, opensAt, ...info } = checked(namespaceFields, json, path);
  return { made: { info, era: { era, quarantineEnd, opensAt }, receiptKey } };
}

/** `before`: the record that this one replaces. */
export function recordBytes(stored: Stored, before?: StoredNode): Uint8Array {
  return jsonBytes(recordJson(stored, before));
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a node that is not the record of this worker ID */
export function readRecord(node: Node, path: string, workerId: number): StoredNode {
  const json = readJson(node, path);
  const fields = checked(recordFields, json, path);
  if (fields.workerId !== workerId) throw foreignNode(path, `the record of worker ${fields.workerId}`);
  return { record: storedOf(fields), version: node.version, json: json as StoredJson };
}

export function readRow(node: Node, path: string): HistoryRow {
  return checked(rowFields, readJson(node, path), path);
}

export function readNumber(node: Node, path: string): number {
  return checked(z.int(), readJson(node, path), path);
}

/** A value as a node's data. */
export function jsonBytes(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
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
