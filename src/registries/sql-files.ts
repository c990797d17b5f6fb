import { readFileSync } from "node:fs";

/**
 * The text of a file of `sql/`, such as `sqlite/schema.sql`. From source it is read; the build puts a module with all texts in the place of
 * this one, so that a program in one file has them, too.
 */
export function readSql(file: string): string {
  return readFileSync(new URL(`../../sql/${file}`, import.meta.url), "utf8");
}
