// A service with Fastify, as many instances as you like on one registry:
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/fastify.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import Fastify from "fastify";
import { snowlease } from "snowlease";

// One generator for the whole process; nobody is served before it has its worker ID.
const ids = await snowlease();
// A connection without a request would hold up the end.
const app = Fastify({ forceCloseConnections: true });
// Called after the last request was answered.
app.addHook("onClose", ids.close);

// Waits for up to 5 s where there is no ID at once. Answers 503 with `Retry-After` after that: another instance may have some.
app.post("/orders", async (_request, reply) => reply.code(201).send({ id: await ids.nextStringAsync() }));

app.get("/ready", (_request, reply) => reply.code(ids.health().ok ? 200 : 503).send());

console.log(await app.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" }));
const stop = () => app.close().catch(console.error);
process.on("SIGTERM", () => void stop());
// Lost for good (a worker ID that was asked for by name): whoever watches over this process starts it anew.
ids.lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  void stop();
});
