import { randomInt } from "node:crypto";

/** The limit of versions. A driver reads smaller values as numbers, and a column holds them as numbers. */
const versions = 2 ** 47;

/**
 * Draws the version of a row for its next write. A counted version would come again if an older copy of the tables is put back. Then a
 * write that was decided before, and arrives after that, would take effect on a row that it never saw.
 */
export function drawVersion(): number {
  return randomInt(versions);
}
