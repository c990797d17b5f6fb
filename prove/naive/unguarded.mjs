// A lease of ours, renewed in time or not, and no look at its window: whoever is told "lost" stops, as other lease holders do.

import { layouts, snowlease } from "../../dist/index.js";
import { noteWindows } from "../leased.mjs";
import { Sequences } from "./sequences.mjs";

export async function open(options, note) {
  const ids = await snowlease(options);
  noteWindows(ids.lease, note);
  const sequences = new Sequences(layouts.westid);
  return {
    fill: (target) => (ids.lease.state === "held" ? sequences.fill(target, ids.lease.workerId) : 0),
    close: () => ids.close(),
    get isOver() {
      return ids.lease.signal.aborted;
    },
  };
}
