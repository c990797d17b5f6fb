import { readSql } from "./sql-files.ts";

/** The statements of a file in `sql/`, by name. Each begins after a line `-- name: NAME`. The text before the first one is for people. */
export function readStatements(file: string): ReadonlyMap<string, string> {
  const [, ...sections] = readSql(file).split(/^-- name: */m);
  return new Map(
    sections.map((section) => {
      const end = section.indexOf("\n");
      return [section.slice(0, end).trim(), section.slice(end + 1).trim()];
    }),
  );
}
