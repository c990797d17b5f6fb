import { readStatements } from "../../assets.ts";
import { shown, SnowleaseError } from "../../id/errors.ts";

const files = ["session", "meta", "record", "claim", "assign", "history", "workers"];
/** The files of `sql/common/`: a dialect's own file replaces some of their statements. */
const commonFiles = ["meta", "record", "assign", "history"];

/** The statements of a dialect by name, such as `claim.oldest`, without their comments. */
export function loadStatements(dialect: string): ReadonlyMap<string, string> {
  return new Map([...statementsIn("common", commonFiles), ...statementsIn(dialect, files)]);
}

function statementsIn(folder: string, files: readonly string[]): readonly (readonly [name: string, text: string])[] {
  return files.flatMap((file) =>
    [...readStatements(`${folder}/${file}.sql`)].map(([name, text]) => [`${file}.${name}`, bare(text)] as const),
  );
}

/** The steps of a dialect's schema, each a list of statements: the first makes version 1. */
export function loadMigrations(dialect: string): readonly (readonly string[])[] {
  return [...readStatements(`${dialect}/schema.sql`).values()].map((text) =>
    bare(text)
      .split(/;\s*\n/)
      .map(bare),
  );
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

/** The names of a namespace's tables, indexes and constraints: `{window}`, `{until_index}`, `{window_key}`. */
export function namesOf(namespace: string): Names {
  // The name becomes a part of statements.
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(namespace)) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`namespace\` to be like orders: a letter, then up to 31 of a-z, 0-9 and _, got ${shown(namespace)}.`,
    );
  }
  const suffix = namespace === "default" ? "" : `_${namespace}`;
  const names: Record<string, string> = {};
  for (const table of ["assign", "window", "history", "meta"]) {
    names[table] = `workerid_${table}${suffix}`;
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
