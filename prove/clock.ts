import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { clocksMissing, WallClock } from "../test/support/wall-clock.ts";

/** The wall clock of a process, which can be stepped, kept in this folder; undefined where that cannot be done. */
export function wallClock(folder: string): WallClock | undefined {
  return clocksMissing === undefined ? new WallClock(0, mkdtempSync(join(folder, "clock-"))) : undefined;
}
