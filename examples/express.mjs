// A service with Express, as many instances as you like on one registry:
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/express.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import express from "express";
import { snowlease } from "snowlease";

// One generator for the whole process; nobody is served before it has its worker ID.
const ids = await snowlease();
const app = express();

// Waits for up to 5 s where there is no ID at once. Answers 503 with `Retry-After` after that: another instance may have some.
app.post("/orders", async (_request, response) => {
  response.status(201).json({ id: await ids.nextStringAsync() });
});

app.get("/ready", (_request, response) => response.sendStatus(ids.health().ok ? 200 : 503));

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});

// First the last request, then the worker ID. A connection without a request would hold it up.
function stop() {
  server.close(() => ids.close().catch(console.error));
  setTimeout(() => server.closeAllConnections(), 5000).unref();
}
process.on("SIGTERM", stop);
// Lost for good (a worker ID that was asked for by name): whoever watches over this process starts it anew.
ids.lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  stop();
});
