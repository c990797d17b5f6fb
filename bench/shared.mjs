import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { joinLease, Layout, snowlease } from "snowlease";
import { burst, bursts, median, quartile } from "./bursts.mjs";
import { interleave } from "./interleave.mjs";
import { figure, printTable } from "./table.mjs";

/** As many sequences as nobody uses up: at the ceiling of a layout, two threads make no more than one. */
const wide = Layout.parse("timestamp:41,worker:1,sequence:21@1490346283706/1");
/** How long the threads make IDs in a round, ms. */
const length = 50;
/** Made at a time. */
const handful = 1000;

const ours = (options) => snowlease({ registry: "memory:", workerId: 1, ...options });

/** How many one thread makes as fast as it can, each ID stored. */
function flatOut(ids, target) {
  const end = performance.now() + length;
  let made = 0;
  for (; performance.now() < end; made += handful) for (let i = 0; i < handful; i++) target[i] = ids.next();
  return made;
}

/** Threads that make IDs at the same time; a round answers how many ns each ID took, all together. */
async function threads(count) {
  const owner = await ours({ layout: wide, shared: true });
  const workers = Array.from(
    { length: count },
    () => new Worker(fileURLToPath(import.meta.url), { workerData: owner.share() }),
  );
  await Promise.all(workers.map((worker) => once(worker, "message")));
  const round = async () => {
    for (const worker of workers) worker.postMessage("go", []);
    const made = await Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0]));
    return (length * 1e6) / made.reduce((sum, each) => sum + each, 0);
  };
  return {
    async warm() {
      for (let i = 0; i < 20; i++) await round();
    },
    round,
    close: () => Promise.all(workers.map((worker) => worker.terminate())),
  };
}

async function alone(options) {
  const ids = await ours(options);
  const target = new BigUint64Array(burst);
  return bursts(() => {
    for (let i = 0; i < burst; i++) target[i] = ids.next();
  });
}

export const groups = {
  cost: {
    title: "A lease that is shared: what an ID costs its maker",
    cases: {
      "next(), the lease alone": () => alone({}),
      "next(), the lease shared": () => alone({ shared: true }),
    },
  },
  threads: {
    title: "Worker threads on one worker ID: what an ID costs, all of them together",
    cases: { "one thread": () => threads(1), "two threads": () => threads(2) },
  },
};

export async function run() {
  for (const [key, { title, cases }] of Object.entries(groups)) {
    const names = Object.keys(cases);
    const results = await interleave(import.meta.url, key, names);
    const first = results.get(names[0]).rounds;
    const rows = [...results].map(([name, { rounds }]) => [
      name,
      figure(median(rounds)),
      figure(median(rounds.map((ns, i) => ns / first[i]))),
      figure(quartile(rounds)),
      figure(quartile(rounds) / quartile(first)),
    ]);
    printTable(title, ["", "ns", "ratio", "quiet ns", "ratio"], rows);
  }
}

if (!isMainThread) {
  const ids = joinLease(workerData);
  const target = new BigUint64Array(handful);
  parentPort.on("message", () => parentPort.postMessage(flatOut(ids, target), []));
  parentPort.postMessage("ready", []);
}
