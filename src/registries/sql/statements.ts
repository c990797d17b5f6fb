import { readStatements } from "../sql-sections.ts";
import { refuse } from "../../id/check.ts";
import { namespacePattern, namespaceRule } from "../../id/namespace.ts";
import type { SqlStatement, SqlValue } from "./dialect.ts";

const commonFiles = ["assign", "claim", "history", "meta", "record", "workers"];

/** The statements of a dialect by name, such as `claim.oldest`, without their comments: its own ones replace those of `sql/common/`. */
export function loadStatements(dialect: string): ReadonlyMap<string, string> {
  const differences = sectionsOf(`${dialect}/differences.sql`);
  const texts = new Map([
    ...commonFiles.flatMap((file) => sectionsOf(`common/${file}.sql`, `${file}.`)),
    ...sectionsOf(`${dialect}/session.sql`, "session."),
    ...differences,
  ]);
  // A section such as `{limit}` is a part of statements.
  for (const [part, text] of differences.filter(([name]) => name.startsWith("{"))) {
    texts.delete(part);
    for (const [name, whole] of texts) texts.set(name, whole.replaceAll(part, text));
  }
  return texts;
}

function sectionsOf(file: string, prefix = ""): readonly (readonly [name: string, text: string])[] {
  return [...readStatements(file)].map(([name, text]) => [prefix + name, bare(text)]);
}

/** The statements about sessions of a dialect, by their names in `session.sql`. */
export function sessionStatements(dialect: string): (name: string) => string {
  const statements = loadStatements(dialect);
  return (name) => statements.get(`session.${name}`) ?? "";
}

/** What makes the tables of a namespace. */
export interface SqlSchema {
  /** It rises only where an older Snowlease must not use the tables. Columns that may be missing are added without that. */
  readonly version: number;
  /** Each can be repeated, and the last one notes the version. */
  readonly statements: readonly string[];
}

/** The schema of a dialect: the section of its file is named by the version. */
export function loadSchema(dialect: string): SqlSchema {
  const [[version, text] = ["", ""]] = readStatements(`${dialect}/schema.sql`);
  return {
    version: Number(version),
    statements: bare(text)
      .split(/;\s*\n/)
      .map(bare),
  };
}

/** Without comments and without the semicolon at the end. */
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
  // The name becomes a part of statements.
  if (!namespacePattern.test(namespace)) refuse("namespace", namespaceRule(namespace), namespace);
  const suffix = namespace === "default" ? "" : `_${namespace}`;
  // Behind a proxy, a session's search path is not ours. A session of Oracle is in the schema.
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

/** A statement without parameters: a server takes several at once only without bound ones. */
export function withLiterals({ text, parameters }: SqlStatement, literal: (value: SqlValue) => string): string {
  return text.replace(placeholder, (_, name: string) => literal(parameters[name] ?? null));
}

export function integerLiteral(value: number | null): string {
  if (value === null) return "NULL";
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number: ${value}`);
  return String(value);
}
