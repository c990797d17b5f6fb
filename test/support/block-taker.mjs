// A thread that takes blocks of an allocator as fast as it can, until a test asks it to stop.
import { parentPort, workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { SharedAllocator } from "../../dist/sharing/shared-allocator.js";

const { buffer, base, stop } = workerData;
const allocator = new SharedAllocator(defaultLayout, buffer);
const taken = [];
parentPort.postMessage("ready", []);
while (Atomics.load(stop, 0) === 0) {
  const { snapshot } = allocator.read();
  if (snapshot === undefined) continue;
  const span = base + Math.floor(Math.random() * 8);
  const blocks = allocator.take(snapshot.generation, span, 1 + Math.floor(Math.random() * 3));
  if (blocks !== 0) taken.push([snapshot.generation, span, blocks]);
}
parentPort.postMessage(taken, []);
