import { readStatements } from "../sql-sections.ts";
import { refuse } from "../../id/check.ts";
import { namespacePattern, namespaceRule } from "../../id/namespace.ts";
import type { SqlStatement, SqlValue } from "./dialect.ts";

const commonFiles = ["assign", "claim", "history", "meta", "record", "workers"];

/**
 * The statements of a dialect by name, such as `claim.oldest`, without their comments. The dialect's own statements replace those of
 * `sql/common/`.
 */
export function loadStatements(dialect: string): ReadonlyMap<string, string> {
  const differences = sectionsOf(`${dialect}/differences.sql`);
  const texts = new Map([
    ...commonFiles.flatMap((file) => sectionsOf(`common/${file}.sql`, `${file}.`)),
    ...sectionsOf(`${dialect}/session.sql`, "session."),
    ...differences,
  ]);
  // A section such as `{limit}` is a part of other statements.
  for (const [part, text] of differences.filter(([name]) => name.startsWith("{"))) {
    texts.delete(part);
    for (const [name, whole] of texts) texts.set(name, whole.replaceAll(part, text));
  }
  return texts;
}

function sectionsOf(file: string, prefix = ""): readonly (readonly [name: string, text: string])[] {
  return [...readStatements(file)].map(([name, text]) => [prefix + name, bare(text)]);
}

/** The statements of a dialect about sessions, by their names in `session.sql`. */
export function sessionStatements(dialect: string): (name: string) => string {
  const statements = loadStatements(dialect);
  return (name) => statements.get(`session.${name}`) ?? "";
}

/** The statements that make the tables of a namespace. */
export interface SqlSchema {
  /** The version rises only if an older Snowlease must not use the tables. Columns that may be missing are added without a new version. */
  readonly version: number;
  /** Each statement can be repeated, and the last one notes the version. */
  readonly statements: readonly string[];
}

/** The schema of a dialect. The name of the section in its file is the version. */
export function loadSchema(dialect: string): SqlSchema {
  const [[version, text] = ["", ""]] = readStatements(`${dialect}/schema.sql`);
  return {
    version: Number(version),
    statements: bare(text)
      .split(/;\s*\n/)
      .map(bare),
  };
}

/** The text without comments and without the semicolon at the end. */
function bare(text: string): string {
  return text
    .replace(/^\s*--.*\n?/gm, "")
    .trim()
    .replace(/;$/, "");
}

/** The texts that replace names in braces. */
export type Names = Readonly<Record<string, string>>;

/** Where the tables of a registry are. */
export interface TablesPlace {
  readonly kind: string;
  readonly schema?: string | undefined;
}

/** The names of a namespace's tables, indexes and constraints: `{window}`, `{until_index}`, `{window_key}`. */
export function namesOf(namespace: string, { kind, schema }: TablesPlace = { kind: "" }): Names {
  // The name becomes part of statements.
  if (!namespacePattern.test(namespace)) refuse("namespace", namespaceRule(namespace), namespace);
  const suffix = namespace === "default" ? "" : `_${namespace}`;
  // A proxy may give a session another search path. A session of Oracle is in the schema.
  const inside = kind === "postgres" && schema !== undefined ? `"${schema}".` : "";
  const names: Record<string, string> = {};
  for (const table of ["assign", "window", "history", "meta"]) {
    names[table] = `${inside}workerid_${table}${suffix}`;
    names[`${table}_key`] = `workerid_key_${table}${suffix}`;
  }
  for (const index of ["token", "until", "host", "ended"]) names[`${index}_index`] = `workerid_by_${index}${suffix}`;
  return names;
}

/** Replaces the names in braces. */
export function named(text: string, names: Names): string {
  return text.replace(/\{([a-z_]+)\}/g, (braces, name: string) => names[name] ?? braces);
}

/** A parameter: `:name`, but neither `::type` nor a time of day. */
export const placeholder: RegExp = /(?<![:\w]):([a-z_]+)/g;

/** A statement without parameters. A server accepts several statements at once only without bound parameters. */
export function withLiterals({ text, parameters }: SqlStatement, literal: (value: SqlValue) => string): string {
  return text.replace(placeholder, (_, name: string) => literal(parameters[name] ?? null));
}

export function integerLiteral(value: number | null): string {
  if (value === null) return "NULL";
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number: ${value}`);
  return String(value);
}
