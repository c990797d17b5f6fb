// A thread that reads claims. It counts the claims that it has read, and those that no thread has written in that form.
import { workerData } from "node:worker_threads";
import { defaultLayout } from "../../dist/id/layout.js";
import { SharedAllocator } from "../../dist/sharing/shared-allocator.js";

const { buffer, counts } = workerData;
const allocator = new SharedAllocator(defaultLayout, buffer);
for (;;) {
  const { snapshot } = allocator.read();
  const torn =
    snapshot !== undefined && new Set([snapshot.from, snapshot.until, snapshot.knownFrom, snapshot.since]).size > 1;
  Atomics.add(counts, torn ? 1 : 0, 1);
}
