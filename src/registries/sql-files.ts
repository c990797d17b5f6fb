import { readFileSync } from "node:fs";

/**
 * The text of a file in `sql/`, such as `sqlite/schema.sql`. When the program runs from source, this reads the file. The build replaces
 * this module by one that contains all texts, so a program in one file has them, too.
 */
export function readSql(file: string): string {
  return readFileSync(new URL(`../../sql/${file}`, import.meta.url), "utf8");
}
