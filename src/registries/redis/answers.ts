import { SnowleaseError } from "../../id/errors.ts";
import type { RedisReply } from "./driver.ts";

/** The fields of a script's answer by name. Texts are bytes. */
export type AnswerFields = ReadonlyMap<string, Uint8Array | number>;

/** The answer of a script, as `sql/redis/includes/namespace.lua` describes it. */
export interface ScriptAnswer {
  readonly outcome: string;
  readonly fields: AnswerFields;
  /** A list has a row for each record. */
  readonly rows: readonly AnswerFields[];
}

const decoder = new TextDecoder();

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a reply that no script of ours gives. */
export function readAnswer(reply: RedisReply | undefined, script: string, where: string): ScriptAnswer {
  const [outcome, ...parts] = listOf(reply);
  const fields = fieldsOf(parts.filter((part) => !Array.isArray(part)));
  const rows = parts.filter((part) => Array.isArray(part)).map((row) => fieldsOf(listOf(row)));
  if (outcome instanceof Uint8Array && fields && rows.every((row) => row !== undefined)) {
    return { outcome: decoder.decode(outcome), fields, rows };
  }
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `Redis ${where} gave an answer to the script ${script} that no version of Snowlease knows: check what runs at this address.`,
  );
}

function listOf(reply: RedisReply | undefined): readonly RedisReply[] {
  return Array.isArray(reply) ? (reply as readonly RedisReply[]) : [];
}

/** Undefined for a list that is not names and values. */
function fieldsOf(list: readonly RedisReply[]): AnswerFields | undefined {
  const fields = new Map<string, Uint8Array | number>();
  for (let i = 0; i < list.length; i += 2) {
    const [name, value] = [list[i], list[i + 1]];
    if (!(name instanceof Uint8Array) || !(value instanceof Uint8Array || typeof value === "number")) return undefined;
    fields.set(decoder.decode(name), value);
  }
  return fields;
}

/** A text; empty where there is none. */
export function textOf(fields: AnswerFields, name: string): string {
  return optionalText(fields, name) ?? "";
}

export function optionalText(fields: AnswerFields, name: string): string | undefined {
  const value = fields.get(name);
  return value instanceof Uint8Array ? decoder.decode(value) : value?.toString();
}

/** A number. @throws SnowleaseError SCHEMA_INCOMPATIBLE where there is none. */
export function numberOf(fields: AnswerFields, name: string): number {
  const number = optionalNumber(fields, name);
  if (number !== undefined) return number;
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `A Redis script answered without \`${name}\`: check whether the server runs this version's scripts.`,
  );
}

/** A number, or undefined where there is none. @throws SnowleaseError SCHEMA_INCOMPATIBLE for a value that is not an integer. */
export function optionalNumber(fields: AnswerFields, name: string): number | undefined {
  const text = textOf(fields, name);
  if (text === "") return undefined;
  const number = Number(text);
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The Redis registry stores \`${text.slice(0, 40)}\` as \`${name}\`, which Snowlease never wrote: correct the record, or release the worker ID.`,
  );
}

/** For an answer that the caller's own checks do not explain. */
export function unexplainedRefusal(script: string, where: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `Redis ${where} refused the script ${script} without a reason: check whether the server runs this version's scripts.`,
  );
}
