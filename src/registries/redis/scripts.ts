import { createHash } from "node:crypto";
import { readSql } from "../../assets.ts";
import { SnowleaseError } from "../../core/errors.ts";
import type { Command, Connection, Reply } from "./connection.ts";
import { isUnknownScript, replyError } from "./errors.ts";

/** What a script is told: names and values. What is undefined is left out. */
export type Arguments = Readonly<Record<string, string | number | boolean | Uint8Array | undefined>>;

/** The fields of an answer by name, their bytes. */
export type Fields = ReadonlyMap<string, Uint8Array>;

/** What a script answers with. */
export interface Answer {
  /** The first of its list. */
  readonly outcome: string;
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
}

const decoder = new TextDecoder();

export function scriptsOn(connection: Connection): Scripts {
  const { where } = connection;
  const loaded = new Map<string, Script>();

  function script(name: string): Script {
    const found = loaded.get(name);
    if (found !== undefined) return found;
    const text = `${readSql("redis/prologue.lua")}\n${readSql(`redis/${name}.lua`)}`;
    const made = { text, sha: createHash("sha1").update(text).digest("hex") };
    loaded.set(name, made);
    return made;
  }

  async function runWith(
    deadline: number,
    name: string,
    prefix: string,
    args: Arguments,
    ...behind: readonly Command[]
  ): Promise<readonly [Answer, ...(Reply | Error)[]]> {
    const { text, sha } = script(name);
    const list = Object.entries(args).flatMap(([key, value]) => (value === undefined ? [] : [key, argumentOf(value)]));
    let [reply, ...replies] = await connection.send(deadline, ["EVALSHA", sha, 1, prefix, ...list], ...behind);
    // It was not run, so it may be sent as a text.
    if (isUnknownScript(reply)) {
      [reply, ...replies] = await connection.send(deadline, ["EVAL", text, 1, prefix, ...list], ...behind);
    }
    if (reply instanceof Error) throw replyError(reply, where);
    return [checked(answerOf(reply, name, where), where), ...replies];
  }

  return { run: async (...call) => (await runWith(...call))[0], runWith };
}

function argumentOf(value: string | number | boolean | Uint8Array): string | Uint8Array {
  if (typeof value === "boolean") return value ? "1" : "0";
  // The driver takes only a Buffer as it is.
  return typeof value === "object" ? Buffer.from(value) : String(value);
}

function answerOf(reply: Reply | undefined, name: string, where: string): Answer {
  const [head, ...rest] = Array.isArray(reply) ? (reply as readonly Reply[]) : [];
  if (!(head instanceof Uint8Array)) throw nonsense(name, where);
  const flat = rest.filter((part) => !Array.isArray(part));
  const rows = rest.filter((part) => Array.isArray(part)).map((row) => row as readonly Reply[]);
  return {
    outcome: decoder.decode(head),
    fields: fieldsOf(flat, name, where),
    // A row of records begins with what it is.
    rows: rows.map((row) => fieldsOf(row.length % 2 === 1 ? row.slice(1) : row, name, where)),
  };
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

/** What any script may answer with. */
function checked(answer: Answer, where: string): Answer {
  const { outcome, fields } = answer;
  if (outcome === "quarantine") {
    const [until, clock] = [numberOf(fields, "until"), numberOf(fields, "clock")];
    const retryAfterMs = Math.max(1, until - clock);
    throw new SnowleaseError(
      "QUARANTINE",
      `Redis ${where} was restarted, promoted, flushed or never initialised, and may have forgotten windows: nothing is granted for ${retryAfterMs} ms, until they have passed; ` +
        "wait, or run `snowlease init` where this namespace was never used.",
      { retryAfterMs, until },
    );
  }
  if (outcome === "wrong-type") {
    throw new SnowleaseError(
      "SCHEMA_INCOMPATIBLE",
      `Redis ${where} holds a ${textOf(fields, "type")} at the key \`${textOf(fields, "key")}\`, where a ${textOf(fields, "expected")} belongs: it is another program's, and was left as it is; use another namespace.`,
    );
  }
  return answer;
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
