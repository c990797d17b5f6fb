// A program of several threads that make IDs all the time. They use the lease of the `snowlease exec` in which the program runs, or a
// lease that another process lends it. Each thread writes a handful to a file of its own before it makes the next one. After an error it
// continues. When the lease is lost for good, the program ends.
import { join } from "node:path";
import { isMainThread, threadId, Worker, workerData } from "node:worker_threads";
import { joinLease, snowlease } from "../../dist/index.js";
import { emitUntilLost } from "./emitting.mjs";

const make = (ids, folder) => emitUntilLost(ids, join(folder, `${process.pid}-${threadId}`));

if (isMainThread) {
  // A manager that forks it may put its own arguments before these.
  const [folder, threads] = process.argv.slice(-2);
  const ids = await snowlease({ shared: true });
  const start = () => new Worker(new URL(import.meta.url), { workerData: { shared: ids.share(), folder } });
  Array.from({ length: Number(threads) }, start);
  await make(ids, folder);
} else {
  await make(joinLease(workerData.shared), workerData.folder);
}
