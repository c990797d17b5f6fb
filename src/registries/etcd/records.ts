import { z } from "zod";
import type { Era } from "../../rule/era.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import {
  eraFields,
  type StoredJson,
  metaFields,
  recordFields,
  recordJson,
  rowFields,
  storedOf,
} from "../record-json.ts";
import { foreignKey, otherSchema } from "./errors.ts";
import type { Entry } from "./transaction.ts";

/** The version of the keys and of their values. A new field does not change it if older versions may ignore it, but keep it. */
export const schemaVersion = 2;

const namespaceFields = z.intersection(metaFields, eraFields);

/** A record as a key's value. Its token is a hash of the holder's token. */
export interface EtcdRecord {
  readonly record: Stored;
  /** As it was read. */
  readonly entry: Entry;
  /** Its value. */
  readonly json: StoredJson;
}

/** The stored text of a namespace. It keeps the fields of `before` that this version does not know. */
export function metaText({ info, era, receiptKey }: NewNamespace, before?: Entry): string {
  const known = { schema: schemaVersion, ...info, receiptKey, ...era };
  return JSON.stringify({ ...(before && (readJson(before) as StoredJson)), ...known });
}

/** The value of `before` with another era. Without `before`, the note of an era. */
export function eraText({ era, quarantineEnd, opensAt }: Era, before?: Entry): string {
  return JSON.stringify({ ...(before && (readJson(before) as StoredJson)), era, quarantineEnd, opensAt });
}

export function readEra(entry: Entry): Era {
  return read(eraFields, entry);
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function readMeta(entry: Entry): NewNamespace {
  const { schema, receiptKey, era, quarantineEnd, opensAt, ...info } = read(namespaceFields, entry);
  if (schema !== schemaVersion) throw otherSchema(entry.key, schema, schemaVersion);
  return { info, era: { era, quarantineEnd, opensAt }, receiptKey };
}

/** `before`: the record that this one replaces. */
export function recordText(stored: Stored, before: EtcdRecord | undefined): string {
  return JSON.stringify(recordJson(stored, before));
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a value that is not the record of this worker ID */
export function readRecord(entry: Entry, workerId: number): EtcdRecord {
  const json = readJson(entry);
  const fields = checked(recordFields, json, entry.key);
  if (fields.workerId !== workerId) throw foreignKey(entry.key, `the record of worker ${fields.workerId}`);
  return { record: storedOf(fields), entry, json: json as StoredJson };
}

export function readRow(entry: Entry): HistoryRow {
  return read(rowFields, entry);
}

export function readNumber(entry: Entry): number {
  return read(z.int(), entry);
}

function read<Value>(schema: z.ZodType<Value>, entry: Entry): Value {
  return checked(schema, readJson(entry), entry.key);
}

function readJson({ key, value }: Entry): unknown {
  try {
    return JSON.parse(value);
  } catch {
    throw foreignKey(key, "something that is not JSON");
  }
}

function checked<Value>(schema: z.ZodType<Value>, value: unknown, key: string): Value {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw foreignKey(key, `no proper record (${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""})`);
}
