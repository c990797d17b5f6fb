import { SnowleaseError } from "../../id/errors.ts";
import type { RedisReply } from "./driver.ts";

/** The fields of a script's answer by name. Texts are bytes. */
export type AnswerFields = ReadonlyMap<string, Uint8Array | number>;

const decoder = new TextDecoder();

/** The answer of a script, as `sql/redis/includes/namespace.lua` describes it. */
export class ScriptAnswer {
  readonly outcome: string;
  readonly #list: readonly RedisReply[];
  readonly #script: string;
  readonly #where: string;

  /** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a reply that is no answer. */
  constructor(reply: RedisReply | undefined, script: string, where: string) {
    this.#list = listOf(reply);
    this.#script = script;
    this.#where = where;
    const [outcome] = this.#list;
    if (!(outcome instanceof Uint8Array)) throw this.#unknown();
    this.outcome = decoder.decode(outcome);
  }

  /** A value of an answer without names. Frequent answers have no names, because reading names takes longer than reading values. */
  value(place: number): RedisReply | undefined {
    return this.#list[place + 1];
  }

  /** The same value as an integer. @throws SnowleaseError SCHEMA_INCOMPATIBLE if it is not an integer. */
  number(place: number): number {
    const value = this.value(place);
    if (Number.isSafeInteger(value)) return value as number;
    throw this.#unknown();
  }

  /** The same value as a text; undefined if it is not a text, or is empty. */
  text(place: number): string | undefined {
    const value = this.value(place);
    return value instanceof Uint8Array && value.length > 0 ? decoder.decode(value) : undefined;
  }

  /** The values by name. @throws SnowleaseError SCHEMA_INCOMPATIBLE if a name or a value has another type. */
  get fields(): AnswerFields {
    return this.#fieldsIn(this.#list.filter((value, i) => i > 0 && !Array.isArray(value)));
  }

  /** The rows of a list, one for each record. @throws SnowleaseError SCHEMA_INCOMPATIBLE */
  get rows(): readonly AnswerFields[] {
    return this.#list.filter((value) => Array.isArray(value)).map((row) => this.#fieldsIn(listOf(row)));
  }

  #fieldsIn(list: readonly RedisReply[]): AnswerFields {
    const fields = new Map<string, Uint8Array | number>();
    for (let i = 0; i < list.length; i += 2) {
      const [name, value] = [list[i], list[i + 1]];
      if (!(name instanceof Uint8Array) || !(value instanceof Uint8Array || typeof value === "number")) {
        throw this.#unknown();
      }
      fields.set(decoder.decode(name), value);
    }
    return fields;
  }

  #unknown(): SnowleaseError {
    return incompatible(
      `Redis ${this.#where} gave an answer to the script ${this.#script} that no version of Snowlease knows: check what runs at this address.`,
    );
  }
}

function incompatible(message: string): SnowleaseError {
  return new SnowleaseError("SCHEMA_INCOMPATIBLE", message);
}

function listOf(reply: RedisReply | undefined): readonly RedisReply[] {
  return Array.isArray(reply) ? (reply as readonly RedisReply[]) : [];
}

/** A copy of the bytes; empty if the value has another type. */
export function bytesOf(value: RedisReply | undefined): Uint8Array {
  return value instanceof Uint8Array ? Uint8Array.from(value) : new Uint8Array();
}

/** A text; empty if the field is missing. */
export function textOf(fields: AnswerFields, name: string): string {
  return optionalText(fields, name) ?? "";
}

export function optionalText(fields: AnswerFields, name: string): string | undefined {
  const value = fields.get(name);
  return value instanceof Uint8Array ? decoder.decode(value) : value?.toString();
}

/** An integer. @throws SnowleaseError SCHEMA_INCOMPATIBLE if the field is missing. */
export function numberOf(fields: AnswerFields, name: string): number {
  const number = optionalNumber(fields, name);
  if (number !== undefined) return number;
  throw incompatible(`A Redis script answered without \`${name}\`: check what runs at the address of the registry.`);
}

/** An integer; undefined if the field is missing. @throws SnowleaseError SCHEMA_INCOMPATIBLE for a value that is not an integer. */
export function optionalNumber(fields: AnswerFields, name: string): number | undefined {
  const text = textOf(fields, name);
  if (text === "") return undefined;
  const number = Number(text);
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw incompatible(
    `The Redis registry stores \`${text.slice(0, 40)}\` as \`${name}\`, which Snowlease never wrote: correct the record, or release the worker ID.`,
  );
}

/** The error for a refusal that the caller's own checks do not explain. */
export function unexplainedRefusal(script: string, where: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `Redis ${where} refused the script ${script} without a reason: check what runs at this address.`,
  );
}
