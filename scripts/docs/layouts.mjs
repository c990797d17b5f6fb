import { layouts } from "../../dist/id/layout.js";
import { table } from "./table.mjs";

/** The built-in layouts. */
export function layoutTable() {
  const rows = Object.entries(layouts).map(([name, { fields, tick, epoch, pool, maxSequence, wrap, endOfLife }]) => [
    `\`${name}\``,
    fields.map((field) => `${field.bits} ${field.name}`).join(", "),
    tick < 1000 ? `${tick} ms` : `${tick / 1000} s`,
    pool.last + 1,
    maxSequence + 1,
    new Date(epoch).toISOString().replace(".000Z", "Z"),
    wrap === undefined
      ? new Date(endOfLife).toISOString().slice(0, 10)
      : `starts again every ${(wrap / 60_000).toFixed(2)} min`,
  ]);
  return table([["layout", "bits from the top", "tick", "worker IDs", "IDs a tick", "epoch", "ends"], ...rows]);
}
