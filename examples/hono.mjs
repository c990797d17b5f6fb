// A service with Hono on Node, which hands the generator to its handlers as a variable of the context.
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/hono.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import { once } from "node:events";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { isSnowleaseError, snowlease } from "snowlease";

// One generator for the whole process; no request is served before it has its worker ID.
const ids = await snowlease();
const app = new Hono();

app.use(async (context, next) => {
  context.set("ids", ids);
  await next();
});

app.post("/orders", async (context) => {
  // Waits for up to 5 s where there is none at once: a full millisecond, a window that has to be renewed first.
  const id = await context.get("ids").nextAsync();
  return context.json({ id: String(id) }, 201);
});

// No worker ID, or no time left on it: another instance may have some, and this one may later.
app.onError((error, context) => {
  if (!isSnowleaseError(error)) throw error;
  const seconds = Math.ceil((error.details.retryAfterMs ?? 1000) / 1000);
  return context.json({ code: error.code }, 503, { "Retry-After": String(seconds) });
});

const server = serve(
  { fetch: app.fetch, port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1" },
  ({ port }) => {
    console.log(`http://127.0.0.1:${port}`);
  },
);

// First the last request, then the last ID, then the worker ID.
async function stop() {
  server.close();
  await once(server, "close");
  await ids.close();
}
process.once("SIGTERM", () => void stop());
// Lost for good (a worker ID that was asked for by name): the supervisor of this process starts it again.
ids.lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  void stop();
});
