import { afterAll } from "vitest";

/** Has something cleared away when the tests of a file are done, or, outside of tests, when this process ends. */
export function atTheEnd(clear: () => void): void {
  if (process.env["VITEST"] === undefined) process.once("exit", clear);
  else afterAll(clear);
}
