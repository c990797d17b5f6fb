import { existsSync, readFileSync } from "node:fs";
import { configInvalid, type SnowleaseError } from "./id/errors.ts";

/** A bundler for CommonJS leaves it out. */
const here: string | undefined = import.meta.url;

/** Reads a file of `sql/`, such as `sqlite/schema.sql`. It lies beside `src` and beside `dist`, also in an installed package. */
export function readSql(file: string): string {
  return read(`../sql/${file}`);
}

/** Reads a file of `web/`, which lies beside it: what browsers get. */
export function readWeb(file: string): string {
  return read(`../web/${file}`);
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
  return (JSON.parse(read("../package.json")) as { readonly version: string }).version;
}

function read(path: string): string {
  try {
    return readFileSync(new URL(path, here), "utf8");
  } catch (cause) {
    throw bundledError(cause) ?? cause;
  }
}

/** The error where a bundler has put this code into another file, away from those that it reads; undefined where they are in their places. */
export function bundledError(cause: unknown): SnowleaseError | undefined {
  if (here !== undefined && existsSync(new URL("../sql/redis/claim.lua", here))) return undefined;
  return configInvalid(
    "This program was bundled, and the files that Snowlease reads are not beside it; leave `snowlease` out of the bundle (`external`), and install it where the program runs.",
    cause,
  );
}
