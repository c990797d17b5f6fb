import { afterAll } from "vitest";

/** Clears something away after the tests of a file, or, outside of tests, when this process ends. */
export function atTheEnd(clear: () => void): void {
  if (process.env["VITEST"] === undefined) process.once("exit", clear);
  else afterAll(clear);
}
