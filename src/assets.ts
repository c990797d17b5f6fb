import { readFileSync } from "node:fs";

/** `sql/` lies beside `src` and beside `dist`: the same path from source, from a build and from an installed package. */
const folder = new URL("../sql/", import.meta.url);

/** Reads a file of `sql/`, such as `sqlite/schema.sql`. */
export function readSql(file: string): string {
  return readFileSync(new URL(file, folder), "utf8");
}

/** Reads a file of `web/`, which lies beside it: what browsers get. */
export function readWeb(file: string): string {
  return readFileSync(new URL(`../web/${file}`, import.meta.url), "utf8");
}

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

/** The version of this package. */
export function version(): string {
  const file = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(file) as { readonly version: string }).version;
}
