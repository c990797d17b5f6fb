// A service with Express, as many instances as you like on one registry:
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/express.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import { once } from "node:events";
import express from "express";
import { isSnowleaseError, snowlease } from "snowlease";

// One generator for the whole process; no request is served before it has its worker ID.
const ids = await snowlease();
const app = express();

app.post("/orders", async (_request, response) => {
  // Waits for up to 5 s where there is none at once: a full millisecond, a window that has to be renewed first.
  const id = await ids.nextAsync();
  response.status(201).json({ id: String(id) });
});

// No worker ID, or no time left on it: another instance may have some, and this one may later.
app.use((error, _request, response, next) => {
  if (!isSnowleaseError(error)) return next(error);
  const seconds = Math.ceil((error.details.retryAfterMs ?? 1000) / 1000);
  response.status(503).set("Retry-After", String(seconds)).json({ code: error.code });
});

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});

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
