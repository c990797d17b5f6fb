// A thread that leases a worker ID for others to share, and makes no IDs itself.
import { parentPort, workerData } from "node:worker_threads";
import { snowlease } from "../../dist/index.js";

const ids = await snowlease({ ...workerData, shared: true });
const { workerId, until } = ids.lease;
parentPort.postMessage({ shared: ids.share(), workerId, until }, []);
// The thread lives until it is terminated.
setInterval(() => undefined, 1000);
