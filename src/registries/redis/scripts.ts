import { createHash } from "node:crypto";
import { readSql } from "../../assets.ts";
import { SnowleaseError, timeText } from "../../id/errors.ts";
import { defaultLimits } from "../../rule/registry.ts";
import type { Command, Connection, Reply } from "./connection.ts";
import { isUnknownScript, replyError } from "./errors.ts";

/** What a script is told, under the names that its first line gives to ARGV. What is undefined, or no name there, it is not told. */
export type Arguments = Readonly<Record<string, string | number | boolean | Uint8Array | undefined>>;

/** The fields of an answer by name, their bytes. */
export type Fields = ReadonlyMap<string, Uint8Array>;

/** What a script answers with. */
export interface Answer {
  /** The first of its list. */
  readonly outcome: string;
  /** The list itself. */
  readonly values: readonly Reply[];
  /** The same where it is names and values. */
  readonly fields: Fields;
  /** Lists inside it: rows. */
  readonly rows: readonly Fields[];
}

/** The scripts of `sql/redis`, each by its file's name, on the keys of one namespace. */
export interface Scripts {
  run(deadline: number, name: string, prefix: string, args: Arguments): Promise<Answer>;
  /** The same with commands right behind it, over the same connection; a reply that is an error is its Error. */
  runWith(
    deadline: number,
    name: string,
    prefix: string,
    args: Arguments,
    ...behind: readonly Command[]
  ): Promise<readonly [Answer, ...(Reply | Error)[]]>;
}

interface Script {
  readonly text: string;
  readonly sha: string;
  /** What it calls its arguments, in their order. */
  readonly names: readonly string[];
}

const decoder = new TextDecoder();

export function scriptsOn(connection: Connection): Scripts {
  const { where } = connection;
  const loaded = new Map<string, Script>();

  function script(name: string): Script {
    const found = loaded.get(name);
    if (found !== undefined) return found;
    const own = readSql(`redis/${name}.lua`);
    const text = `${readSql("redis/prologue.lua")}\n${own}`;
    const [, names = ""] = /^local ([^=]+) = unpack\(ARGV\)/.exec(own) ?? [];
    const made = { text, sha: createHash("sha1").update(text).digest("hex"), names: names.match(/\w+/g) ?? [] };
    loaded.set(name, made);
    return made;
  }

  /** Its replies: that of the script, and those of the commands behind it. */
  async function replies(
    deadline: number,
    name: string,
    prefix: string,
    args: Arguments,
    behind: readonly Command[],
  ): Promise<readonly (Reply | Error)[]> {
    const { text, sha, names } = script(name);
    const list = names.map((each) => argumentOf(args[each]));
    // Nothing stands for what is not given at the end, which is where a script names what seldom is.
    while (list.at(-1) === "") list.pop();
    const told = await connection.send(deadline, ["EVALSHA", sha, 1, prefix, ...list], ...behind);
    // It was not run, so it may be sent as a text.
    if (!isUnknownScript(told[0])) return told;
    return connection.send(deadline, ["EVAL", text, 1, prefix, ...list], ...behind);
  }

  function answerOf(reply: Reply | Error | undefined, name: string, { lag = 0 }: Arguments): Answer {
    if (reply instanceof Error) throw replyError(reply, where);
    return checked(new ScriptAnswer(reply, name, where), where, Number(lag));
  }

  return {
    async run(deadline, name, prefix, args) {
      return answerOf((await replies(deadline, name, prefix, args, []))[0], name, args);
    },
    async runWith(deadline, name, prefix, args, ...behind) {
      const [reply, ...others] = await replies(deadline, name, prefix, args, behind);
      return [answerOf(reply, name, args), ...others];
    },
  };
}

function argumentOf(value: Arguments[string]): string | Uint8Array {
  if (typeof value === "string") return value;
  if (value === undefined) return "";
  if (typeof value === "boolean") return value ? "1" : "0";
  // The driver takes only a Buffer as it is.
  return typeof value === "object" ? Buffer.from(value) : String(value);
}

/** A list that a script answered with, read as far as somebody asks. */
class ScriptAnswer implements Answer {
  readonly outcome: string;
  readonly values: readonly Reply[];
  readonly #name: string;
  readonly #where: string;

  constructor(reply: Reply | undefined, name: string, where: string) {
    const values = Array.isArray(reply) ? (reply as readonly Reply[]) : [];
    const [head] = values;
    if (!(head instanceof Uint8Array)) throw nonsense(name, where);
    this.outcome = decoder.decode(head);
    this.values = values;
    this.#name = name;
    this.#where = where;
  }

  get fields(): Fields {
    const flat = this.values.filter((part, i) => i > 0 && !Array.isArray(part));
    return fieldsOf(flat, this.#name, this.#where);
  }

  get rows(): readonly Fields[] {
    const rows = this.values.filter((part) => Array.isArray(part)).map((row) => row as readonly Reply[]);
    // A row of records begins with what it is.
    return rows.map((row) => fieldsOf(row.length % 2 === 1 ? row.slice(1) : row, this.#name, this.#where));
  }
}

function fieldsOf(list: readonly Reply[], name: string, where: string): Fields {
  const fields = new Map<string, Uint8Array>();
  for (let i = 0; i < list.length; i += 2) {
    const [key, value] = [list[i], list[i + 1]];
    const bytes = typeof value === "number" ? new TextEncoder().encode(String(value)) : value;
    if (!(key instanceof Uint8Array) || !(bytes instanceof Uint8Array)) throw nonsense(name, where);
    fields.set(decoder.decode(key), bytes);
  }
  return fields;
}

function nonsense(name: string, where: string): SnowleaseError {
  return new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `Redis ${where} answered the script ${name} with something that makes no sense: look what answers in its place.`,
  );
}

/** What any script may answer with. `lag`: by how much it was told to lengthen a quarantine, ms. */
function checked(answer: Answer, where: string, lag: number): Answer {
  if (answer.outcome === "quarantine") {
    const { fields } = answer;
    const [until, clock] = [numberOf(fields, "until"), numberOf(fields, "clock")];
    const retryAfterMs = Math.max(1, until - clock);
    const { maxWindow, maxClockSkew } = defaultLimits;
    const longest = maxWindow + 2 * maxClockSkew + lag;
    const why = `Redis ${where} was restarted, promoted or flushed, or holds nothing of this namespace, and may have forgotten windows`;
    // Those windows may reach as far: a quarantine is never shortened because of what a clock shows.
    throw new SnowleaseError(
      "QUARANTINE",
      retryAfterMs <= longest
        ? `${why}: nothing is granted for ${retryAfterMs} ms, until they have passed; wait.`
        : `${why}: nothing is granted until its clock shows ${timeText(until)}. It shows ${timeText(clock)}, which is ${retryAfterMs} ms earlier, and a quarantine lasts ${longest} ms: its clock was ahead when the quarantine began, or is behind now; ` +
            "set the clock right if it is behind, otherwise wait.",
      { retryAfterMs, until, clock },
    );
  }
  return answer;
}

/** For an answer that says neither yes nor why not. */
export function unclear(name: string, where: string): SnowleaseError {
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `Redis ${where} refused what the script ${name} was asked, and does not say why: look whether it is of this version.`,
  );
}

/** A number of an answer that is no names and values, by its place behind the outcome. @throws SnowleaseError SCHEMA_INCOMPATIBLE where there is none. */
export function numberAt({ outcome, values }: Answer, at: number): number {
  const value = values[at + 1];
  if (Number.isSafeInteger(value)) return value as number;
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `A Redis script answered \`${outcome}\` without the number that belongs there: look whether it is of this version.`,
  );
}

/** A text; empty where there is none. */
export function textOf(fields: Fields, name: string): string {
  const bytes = fields.get(name);
  return bytes === undefined ? "" : decoder.decode(bytes);
}

/** A number. @throws SnowleaseError SCHEMA_INCOMPATIBLE where there is none. */
export function numberOf(fields: Fields, name: string): number {
  const number = maybeNumber(fields, name);
  if (number !== undefined) return number;
  throw new SnowleaseError("SCHEMA_INCOMPATIBLE", `The Redis registry stores no \`${name}\` where one belongs.`);
}

/** A number, or undefined where there is none. @throws SnowleaseError SCHEMA_INCOMPATIBLE for what is no whole number. */
export function maybeNumber(fields: Fields, name: string): number | undefined {
  const text = textOf(fields, name);
  if (text === "") return undefined;
  const number = Number(text);
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(number)) return number;
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    `The Redis registry stores \`${text.slice(0, 40)}\` as \`${name}\`, which Snowlease never wrote: put the record right, or release the worker ID.`,
  );
}
