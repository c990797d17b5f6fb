import { readSql } from "./sql-files.ts";

/** The statements of a file of `sql/` by name: each begins behind a line `-- name: NAME`. What stands before is for people. */
export function readStatements(file: string): ReadonlyMap<string, string> {
  const [, ...sections] = readSql(file).split(/^-- name: */m);
  return new Map(
    sections.map((section) => {
      const end = section.indexOf("\n");
      return [section.slice(0, end).trim(), section.slice(end + 1).trim()];
    }),
  );
}
