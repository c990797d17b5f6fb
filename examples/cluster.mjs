// A service of several processes on one lease: the primary keeps it, and its workers borrow. One that dies is replaced, and costs no
// worker ID.
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/cluster.mjs [workers]
//   curl -X POST http://127.0.0.1:3000/orders
import cluster from "node:cluster";
import { once } from "node:events";
import { createServer } from "node:http";
import { availableParallelism } from "node:os";
import { lendLease, snowlease } from "snowlease";

if (cluster.isPrimary) {
  const ids = await snowlease({ shared: true });
  const lender = await lendLease(ids);
  let stopping = false;
  cluster.on("exit", () => {
    if (!stopping) cluster.fork(lender.env);
  });
  const count = Number(process.argv[2] ?? availableParallelism());
  for (let worker = 0; worker < count; worker++) cluster.fork(lender.env);
  cluster.once("listening", (_worker, { address, port }) => console.log(`http://${address}:${port}`));

  const stop = async () => {
    stopping = true;
    const workers = Object.values(cluster.workers);
    await Promise.all(workers.map((worker) => (worker.process.kill("SIGTERM"), once(worker, "exit"))));
    await lender[Symbol.asyncDispose]();
    await ids.close();
  };
  process.once("SIGTERM", () => void stop());
  // Lost for good: whoever watches over this process starts it anew.
  ids.lease.signal.addEventListener("abort", () => {
    process.exitCode = 1;
    void stop();
  });
} else {
  // The same call as in a process of its own: what `fork` put in the environment says that there is a lease to borrow.
  const ids = await snowlease();
  const answer = async (response) => {
    try {
      const id = await ids.nextStringAsync();
      response.writeHead(201, { "content-type": "application/json" });
      response.end(JSON.stringify({ id, pid: process.pid }));
    } catch (error) {
      response.writeHead(error.status ?? 500, { "content-type": "application/json", ...error.headers });
      response.end(JSON.stringify({ code: error.code }));
    }
  };
  const server = createServer((_request, response) => void answer(response));
  server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
  const stop = async () => {
    server.close();
    await once(server, "close");
    await ids.close();
    process.disconnect();
  };
  process.once("SIGTERM", () => void stop());
}
