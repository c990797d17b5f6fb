import { afterAll } from "vitest";

/** Runs a clean-up when the tests of a file are done, or, outside tests, when this process ends. */
export function atTheEnd(clear: () => void): void {
  if (process.env["VITEST"] === undefined) process.once("exit", clear);
  else afterAll(clear);
}
