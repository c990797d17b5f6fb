import { z } from "zod";
import { isSnowleaseError } from "../../id/errors.ts";
import type { Era } from "../../rule/era.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import {
  eraFields,
  metaFields,
  recordFields,
  recordJson,
  rowFields,
  type StoredJson,
  storedOf,
} from "../record-json.ts";
import { foreignObject, otherSchema } from "./errors.ts";
import {
  annotation,
  label,
  labelOf,
  type LeaseContent,
  type LeaseObject,
  microTime,
  type LeaseNames,
} from "./objects.ts";

/** The version of the objects and of their values. A new field does not change it if older versions may ignore it, but keep it. */
export const schemaVersion = 1;

/** How many rows of ended claims each worker ID keeps. With more rows, a list of the pool would be too large. */
export const mostRows = 32;
/** Longer recents are not kept, bytes. The next holder then begins after the window instead of after the recents. */
const mostRecents = 4096;
/** `leaseTransitions` has 32 bits. */
const mostTransitions = 2 ** 31 - 1;

const namespaceFields = z.intersection(metaFields, eraFields);
const rows: z.ZodType<readonly HistoryRow[]> = z.array(rowFields);

/** A record as an object has it. Its token is a hash of the holder's token. */
export interface LeaseRecord {
  readonly record: Stored;
  readonly object: LeaseObject;
  /** The value of the annotation as it was read. */
  readonly json: StoredJson;
}

/** The object of a namespace. It replaces `before`, and keeps the fields that this version does not know. */
export function factsObject(
  names: LeaseNames,
  { info, era, receiptKey }: NewNamespace,
  before: LeaseObject | undefined,
): LeaseContent {
  const known = { ...readKnown(before, annotation.namespace), schema: schemaVersion, ...info, receiptKey, ...era };
  return objectOf(names.facts, names.labels, before, { [annotation.namespace]: known, [annotation.noted]: undefined });
}

/** The same for a namespace that does not exist, or exists no longer, with the era that is noted for it. */
export function notedObject(
  names: LeaseNames,
  { era, quarantineEnd, opensAt }: Era,
  before: LeaseObject | undefined,
): LeaseContent {
  const known = { ...readKnown(before, annotation.noted), era, quarantineEnd, opensAt };
  return objectOf(names.facts, names.labels, before, { [annotation.namespace]: undefined, [annotation.noted]: known });
}

/** The namespace that an object stores; undefined if there is none. @throws SnowleaseError SCHEMA_INCOMPATIBLE */
export function readFacts(object: LeaseObject | undefined): NewNamespace | undefined {
  if (object?.metadata.annotations[annotation.namespace] === undefined) return undefined;
  const { schema, receiptKey, era, quarantineEnd, opensAt, ...info } = read(
    namespaceFields,
    object,
    annotation.namespace,
  );
  if (schema !== schemaVersion) throw otherSchema(object.metadata.name, schema, schemaVersion);
  return { info, era: { era, quarantineEnd, opensAt }, receiptKey };
}

/** The era that is noted for a namespace that does not exist. */
export function readNoted(object: LeaseObject | undefined): Era | undefined {
  if (object?.metadata.annotations[annotation.noted] === undefined) return undefined;
  return read(eraFields, object, annotation.noted);
}

/** The object of a record. It replaces `before`. `row`: the claim that ends with this write. */
export function recordObject(
  names: LeaseNames,
  stored: Stored,
  before: LeaseRecord | undefined,
  row: HistoryRow | undefined,
): LeaseContent {
  const { workerId, token, owner, holder, recents } = stored;
  const kept = recents !== undefined && recents.bytes.length > mostRecents ? { ...stored, recents: undefined } : stored;
  const history = row === undefined ? undefined : [row, ...(before ? readRows(before) : [])].slice(0, mostRows);
  const labels = {
    ...names.labels,
    [label.worker]: String(workerId),
    [label.token]: token,
    [label.host]: holder && labelOf(holder.host),
    [label.owner]: owner === undefined ? undefined : labelOf(owner),
  };
  const made = objectOf(names.worker(workerId), labels, before?.object, {
    [annotation.record]: recordJson(kept, before),
    ...(history && { [annotation.history]: history }),
  });
  return { ...made, spec: shownTo(kept, before?.object) };
}

/** The fields that `kubectl get leases` shows: the holder, since when, and until when. */
function shownTo(
  { token, holder, claimedAt, seenClock, until, fence }: Stored,
  before: LeaseObject | undefined,
): Record<string, unknown> {
  const others = { ...before?.spec };
  const ours = ["holderIdentity", "acquireTime", "renewTime", "leaseDurationSeconds", "leaseTransitions"];
  for (const name of ours) delete others[name];
  if (fence === 0) return others;
  const isFirst = before === undefined || before.spec?.["leaseTransitions"] === undefined;
  const transitions = isFirst ? 0 : Number(before.spec?.["leaseTransitions"]);
  const isNew = token !== undefined && before?.metadata.labels[label.token] !== token;
  const count = Math.min(mostTransitions, (Number.isSafeInteger(transitions) ? transitions : 0) + (isNew ? 1 : 0));
  if (token === undefined || holder === undefined || claimedAt === undefined) {
    return { ...others, leaseTransitions: count };
  }
  return {
    ...others,
    holderIdentity: holder.instance === "" ? `${holder.host}/${holder.pid}` : holder.instance,
    acquireTime: microTime(claimedAt),
    renewTime: microTime(seenClock),
    leaseDurationSeconds: Math.max(1, Math.min(mostTransitions, Math.ceil((until - seenClock) / 1000))),
    leaseTransitions: count,
  };
}

/** A record with other rows of its history. */
export function withRows({ object }: LeaseRecord, kept: readonly HistoryRow[]): LeaseContent {
  const annotations = { ...object.metadata.annotations, [annotation.history]: JSON.stringify(kept) };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for an object that is not the record of this worker ID */
export function readRecord(object: LeaseObject, workerId: number): LeaseRecord {
  const { name, annotations } = object.metadata;
  if (annotations[annotation.record] === undefined) throw foreignObject(name, `no annotation \`${annotation.record}\``);
  const fields = read(recordFields, object, annotation.record);
  if (fields.workerId !== workerId) throw foreignObject(name, `the record of worker ${fields.workerId}`);
  return { record: storedOf(fields), object, json: readKnown(object, annotation.record) };
}

/** The same for an object of a list; undefined if Snowlease did not write it. A claim of that worker ID reports it. */
export function listedRecord(names: LeaseNames, object: LeaseObject): LeaseRecord | undefined {
  const workerId = Number(object.metadata.labels[label.worker]);
  if (!Number.isSafeInteger(workerId) || object.metadata.name !== names.worker(workerId)) return undefined;
  try {
    return readRecord(object, workerId);
  } catch (error) {
    if (isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) return undefined;
    throw error;
  }
}

/** The ended claims of a worker ID, the newest first. */
export function readRows({ object }: Pick<LeaseRecord, "object">): readonly HistoryRow[] {
  return object.metadata.annotations[annotation.history] === undefined ? [] : read(rows, object, annotation.history);
}

/** An object with these labels and values. It replaces `before`. The value undefined removes a label or an annotation. */
export function objectOf(
  name: string,
  labels: Readonly<Record<string, string | undefined>>,
  before: LeaseObject | undefined,
  values: Readonly<Record<string, unknown>>,
): LeaseContent {
  const texts: Record<string, string | undefined> = Object.fromEntries(
    Object.entries(values).map(([key, value]) => [key, value === undefined ? undefined : JSON.stringify(value)]),
  );
  return {
    metadata: {
      name,
      labels: present({ ...before?.metadata.labels, ...labels }),
      annotations: present({ ...before?.metadata.annotations, ...texts }),
    },
  };
}

function present(values: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

function readKnown(object: LeaseObject | undefined, name: string): StoredJson {
  if (object?.metadata.annotations[name] === undefined) return {};
  return read(z.record(z.string(), z.unknown()), object, name);
}

function read<Value>(schema: z.ZodType<Value>, { metadata }: LeaseObject, name: string): Value {
  let json: unknown;
  try {
    json = JSON.parse(metadata.annotations[name] ?? "");
  } catch {
    throw foreignObject(metadata.name, `in the annotation \`${name}\` something that is not JSON`);
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`;
  throw foreignObject(metadata.name, `in the annotation \`${name}\` no proper value (${where})`);
}
