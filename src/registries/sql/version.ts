import { randomInt } from "node:crypto";

/** A driver reads it as a number, and a column holds it as one. */
const versions = 2 ** 47;

/**
 * Draws the version of a row for its next write. A counted one comes again where an older copy of the tables is put back: a write that was
 * decided before, and arrives behind that, would take effect on a row that it never saw.
 */
export function drawVersion(): number {
  return randomInt(versions);
}
