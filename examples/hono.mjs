// A service with Hono on Node, as many instances as you like on one registry:
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/hono.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { isSnowleaseError, snowlease } from "snowlease";

// One generator for the whole process; nobody is served before it has its worker ID.
const ids = await snowlease();
const app = new Hono();

// Waits for up to 5 s where there is no ID at once.
app.post("/orders", async (context) => context.json({ id: await ids.nextStringAsync() }, 201));

app.get("/ready", (context) => context.body(null, ids.health().ok ? 200 : 503));

// 503 with `Retry-After`: another instance may have some.
app.onError((error, context) => {
  if (!isSnowleaseError(error)) throw error;
  return context.json({ code: error.code }, error.status ?? 500, error.headers);
});

const options = { fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" };
const server = serve(options, ({ port }) => console.log(`http://127.0.0.1:${port}`));

// First the last request, then the worker ID. A connection without a request would hold it up.
function stop() {
  server.close(() => void ids.close().catch(console.error));
  setTimeout(() => server.closeAllConnections(), 5000).unref();
}
process.on("SIGTERM", stop);
// Lost for good (a worker ID that was asked for by name): whoever watches over this process starts it anew.
ids.lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  stop();
});
