// A thread that takes lanes of a grid as fast as it can, until it is told to stop.
import { parentPort, workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { Grid } from "../../dist/sharing/shared-allocator.js";

const { buffer, base, stop } = workerData;
const grid = new Grid(defaultLayout, buffer);
const taken = [];
parentPort.postMessage("ready", []);
while (Atomics.load(stop, 0) === 0) {
  const { tenure } = grid.read();
  if (tenure === undefined) continue;
  const span = base + Math.floor(Math.random() * 8);
  const lanes = grid.take(tenure.generation, span, 1 + Math.floor(Math.random() * 3));
  if (lanes !== 0) taken.push([tenure.generation, span, lanes]);
}
parentPort.postMessage(taken, []);
