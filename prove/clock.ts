import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { clocksMissing, WallClock } from "../test/support/holder.ts";

/** The wall clock of a process, which can be stepped, with its file in this folder; undefined if that is not possible here. */
export function wallClock(folder: string): WallClock | undefined {
  return clocksMissing === undefined ? new WallClock(0, mkdtempSync(join(folder, "clock-"))) : undefined;
}
