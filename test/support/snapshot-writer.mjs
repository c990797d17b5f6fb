// A thread that begins claims, writes them and ends them, as fast as it can, until it is terminated.
import { parentPort, workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { SharedAllocator } from "../../dist/sharing/shared-allocator.js";

const { buffer, first } = workerData;
const allocator = new SharedAllocator(defaultLayout, buffer);
allocator.end();
parentPort.postMessage("ready", []);
for (let number = first; ; number++) {
  const times = { from: number, until: number, knownFrom: number, since: number };
  if (number % 100 === 0) allocator.begin({ generation: number, workerId: 7, fence: number, first: number, ...times });
  else if (number % 100 < 99) allocator.write(times);
  else allocator.end();
}
