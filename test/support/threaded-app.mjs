// A program of several threads that make IDs all the time on the lease of the `snowlease exec` that it runs in, or of whoever lends it
// one. Each thread writes a handful to a file of its own before it makes the next. After an error it goes on; when the lease is lost
// for good, the program ends.
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, threadId, Worker, workerData } from "node:worker_threads";
import { joinLease, snowlease } from "../../dist/index.js";

const handful = 16;

async function make(ids, folder) {
  const file = openSync(join(folder, `${process.pid}-${threadId}`), "a");
  while (ids.lease.state !== "lost") {
    const made = [];
    try {
      while (made.length < handful) made.push(ids.next());
    } catch {
      // The next turn finds out whether it passes.
    }
    if (made.length > 0) writeSync(file, `${made.join("\n")}\n`);
    await sleep(1);
  }
}

if (isMainThread) {
  // A manager that forks it may leave arguments of its own before these.
  const [folder, threads] = process.argv.slice(-2);
  const ids = await snowlease({ shared: true });
  const start = () => new Worker(new URL(import.meta.url), { workerData: { shared: ids.share(), folder } });
  Array.from({ length: Number(threads) }, start);
  await make(ids, folder);
} else {
  await make(joinLease(workerData.shared), workerData.folder);
}
