import { readFileSync } from "node:fs";

/** Reads a file of `web/`, which lies beside `src` and beside `dist`: what browsers get. */
export function readWeb(file: string): string {
  return readFileSync(new URL(`../web/${file}`, import.meta.url), "utf8");
}

/** The version of this package. */
export function version(): string {
  const file = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(file) as { readonly version: string }).version;
}
