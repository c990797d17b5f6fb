// A thread that leases a worker ID which others share, and does nothing more with it.
import { parentPort, workerData } from "node:worker_threads";
import { snowlease } from "../../dist/index.js";

const ids = await snowlease({ ...workerData, shared: true });
const { workerId, until } = ids.lease;
parentPort.postMessage({ shared: ids.share(), workerId, until }, []);
// The thread lives until it is terminated.
setInterval(() => undefined, 1000);
