// A thread that makes IDs as fast as it can, on a lease of the thread that started it. It writes every ID into shared memory before it
// counts the ID, so that no ID is lost if the thread is ended in the middle.
import { workerData } from "node:worker_threads";
import { setTimeout as sleep } from "node:timers/promises";
import { joinLease } from "../../dist/index.js";

const { shared, stop, out } = workerData;
const count = new Int32Array(out, 0, 1);
const made = new BigUint64Array(out, 8);
const ids = joinLease(shared);
while (Atomics.load(stop, 0) === 0) {
  try {
    for (let i = 0; i < 64 && count[0] < made.length; i++) {
      made[count[0]] = ids.next();
      Atomics.add(count, 0, 1);
    }
  } catch (error) {
    if (!error.retryable) throw error;
  }
  if (count[0] === made.length) break;
  await sleep(0);
}
await ids.close();
