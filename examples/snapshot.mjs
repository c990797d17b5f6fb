// A service that is copied while it runs: a machine that is restored from a snapshot, a process that is restored from a checkpoint (CRIU), a
// function that starts from an image of its memory. The platform calls one hook before it takes the image and another one in each copy:
// the action scripts of CRIU (pre-dump, post-resume), a hypervisor's agent, the runtime hooks of a function.
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/snapshot.mjs
//   curl -X POST http://127.0.0.1:3000/orders            # {"id":"1278549019894743040"}
//   curl -X POST http://127.0.0.1:3000/before-snapshot   # {"state":"suspended"}: take the snapshot now
//   curl -X POST http://127.0.0.1:3000/after-restore     # {"state":"held","workerId":7}: in the original and in each copy
import { once } from "node:events";
import { createServer } from "node:http";
import { isSnowleaseError, snowlease } from "snowlease";

const ids = await snowlease();
const { lease } = ids;

const routes = {
  "/orders": async () => {
    // A request that comes between the two hooks waits for the second one, for up to 5 s.
    const id = await ids.nextAsync();
    return [201, { id: String(id) }];
  },
  "/before-snapshot": async () => {
    // No ID is made from here on, also where the registry does not answer: the worker ID then rests until its window has passed.
    await ids.suspend().catch((error) => console.error(error.message));
    return [200, { state: lease.state }];
  },
  "/after-restore": async () => {
    // Each copy claims a worker ID of its own. In a quarantine this takes as long as the quarantine lasts.
    await ids.resume();
    return lease.state === "held" ? [200, { state: "held", workerId: lease.workerId }] : [503, { state: lease.state }];
  },
};

async function answer(path) {
  try {
    return (await routes[path]?.()) ?? [404, {}];
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    return [503, { code: error.code }];
  }
}

async function serve({ method, url }, response) {
  const [status, body] = await answer(method === "POST" ? url : undefined);
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

// Only this machine reaches it. A service for others keeps its hooks on a port, or a Unix socket, of their own.
const server = createServer((request, response) => void serve(request, response));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});

async function stop() {
  server.close();
  await once(server, "close");
  await ids.close();
}
process.once("SIGTERM", () => void stop());
// Lost for good: the service manager starts this process anew.
lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  void stop();
});
