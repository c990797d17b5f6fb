// A thread that begins tenures, writes them and ends them, as fast as it can, until it is terminated.
import { parentPort, workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { Grid } from "../../dist/sharing/shared-allocator.js";

const { buffer, first } = workerData;
const grid = new Grid(defaultLayout, buffer);
grid.end();
parentPort.postMessage("ready", []);
for (let number = first; ; number++) {
  const times = { from: number, until: number, floor: number, since: number };
  if (number % 100 === 0) grid.begin({ generation: number, workerId: 7, fence: number, first: number, ...times });
  else if (number % 100 < 99) grid.write(times);
  else grid.end();
}
