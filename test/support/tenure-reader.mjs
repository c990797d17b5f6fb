// A thread that reads tenures, and counts those that it has read and those that were never written like that.
import { workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { Grid } from "../../dist/sharing/shared-allocator.js";

const { buffer, counts } = workerData;
const grid = new Grid(defaultLayout, buffer);
for (;;) {
  const { tenure } = grid.read();
  const torn = tenure !== undefined && new Set([tenure.from, tenure.until, tenure.floor, tenure.since]).size > 1;
  Atomics.add(counts, torn ? 1 : 0, 1);
}
