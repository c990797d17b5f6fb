// A service of several processes on one lease. The primary process shares the lease. The workers ask for an ID generator as they would
// alone.
import cluster from "node:cluster";
import { once } from "node:events";
import { lendLease, snowlease } from "../../dist/index.js";

const registry = process.argv[2];
if (cluster.isPrimary) {
  const ids = await snowlease({ registry, shared: true });
  const lender = await lendLease(ids);
  const own = Array.from({ length: 2000 }, () => String(ids.next()));
  const workers = [1, 2, 3].map(() => cluster.fork(lender.env));
  const made = await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
  console.log([...own, ...made.flat()].join("\n"));
  await lender[Symbol.asyncDispose]();
  await ids.close();
} else {
  const ids = await snowlease({ registry });
  const made = [];
  while (made.length < 2000) made.push(String(await ids.nextAsync()));
  process.send(made, () => process.disconnect());
}
