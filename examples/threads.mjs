// One lease for all threads of a process: they take what they need of it out of shared memory, and never the same.
//
//   node examples/threads.mjs [threads] [IDs of each] | snowlease audit
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { joinLease, snowlease } from "snowlease";

if (isMainThread) {
  const [threads, count] = [process.argv[2] ?? 4, process.argv[3] ?? 1000].map(Number);
  const ids = await snowlease({ shared: true });
  const workers = Array.from({ length: threads }, () => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { lease: ids.share(), count } });
    worker.on("message", (made) => console.log(made.join("\n")));
    return worker;
  });
  // This thread makes IDs on the same lease meanwhile.
  for (let made = 0; made < count; made++) console.log(String(await ids.nextAsync()));
  await Promise.all(workers.map((worker) => once(worker, "exit")));
  await ids.close();
} else {
  const ids = joinLease(workerData.lease);
  const made = [];
  while (made.length < workerData.count) made.push(await ids.nextAsync());
  parentPort.postMessage(made);
  // No other thread gets what this one took and did not use. The lease is the main thread's to give back.
  await ids.close();
}
