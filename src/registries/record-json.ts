import { z } from "zod";
import type { Era } from "../rule/era.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import type { HistoryRow } from "../rule/registry.ts";
import type { Stored } from "../rule/window.ts";

/*
 * What is stored as JSON. Processes of several versions share a store. A newer version may have added fields. A reader does not return
 * these fields, but each write keeps them.
 */

/** A JSON object as it was read. */
export type StoredJson = Readonly<Record<string, unknown>>;

const holder = z.object({ host: z.string(), ip: z.string(), pid: z.number(), instance: z.string() });

/** What is fixed for a namespace. */
interface MetaFields extends Required<Pick<NamespaceInfo, "id" | "layout" | "maxWindow" | "maxClockSkew">> {
  readonly schema: number;
  readonly receiptKey: string;
}

/** A record; its recents are a text in base64. */
type RecordFields = Omit<Stored, "recents"> & {
  readonly recents?: { readonly from: number; readonly bytes: string } | undefined;
};

export const metaFields: z.ZodType<MetaFields> = z.object({
  schema: z.int(),
  id: z.string(),
  receiptKey: z.string(),
  layout: z.string(),
  maxWindow: z.int(),
  maxClockSkew: z.int(),
});

export const eraFields: z.ZodType<Era> = z.object({ era: z.string(), quarantineEnd: z.int(), opensAt: z.int() });

const recordShape = {
  workerId: z.int(),
  fence: z.int(),
  token: z.string().optional(),
  from: z.int(),
  until: z.int(),
  seenClock: z.int(),
  clean: z.boolean(),
  knownFrom: z.int(),
  began: z.int().optional(),
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
};

/** A record of a worker ID. */
export const recordFields: z.ZodType<RecordFields> = z.object(recordShape);

export const rowFields: z.ZodType<HistoryRow> = z.object({
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

/** The record for such fields. */
export function storedOf(fields: RecordFields): Stored {
  const { recents: text, ...stored } = fields;
  const recents = text && { from: text.from, bytes: Uint8Array.from(Buffer.from(text.bytes, "base64")) };
  return { ...stored, recents };
}

/**
 * A record as JSON. `before`: the record that it replaces, as it was read. Fields of that record that this version does not know are kept.
 */
export function recordJson(
  stored: Stored,
  before?: { readonly record: Stored; readonly json: StoredJson },
): StoredJson {
  const { recents } = stored;
  const text = recents && { from: recents.from, bytes: Buffer.from(recents.bytes).toString("base64") };
  const known = { ...stored, recents: text };
  if (before === undefined) return known;
  // A part that did not change is written as it was read, with its unknown fields.
  const parts = (["holder", "recents", "checkpoint"] as const).filter((name) => stored[name] === before.record[name]);
  const same = parts.map((name) => [name, before.json[name]] as const);
  return { ...unknownFields(before.json, [recordShape]), ...known, ...Object.fromEntries(same) };
}

/** The fields of an object that none of the `known` objects has. */
function unknownFields(json: StoredJson, known: readonly object[]): StoredJson {
  return Object.fromEntries(
    Object.entries(json).filter(([name]) => !known.some((fields) => Object.hasOwn(fields, name))),
  );
}
