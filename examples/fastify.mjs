// A service with Fastify. The generator is a plugin: it is there before the server listens, and gives its worker ID back when the
// server has closed.
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/fastify.mjs
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import Fastify from "fastify";
import { isSnowleaseError, snowlease } from "snowlease";

/** Decorates the server with `ids`. */
async function snowflakes(app, options) {
  const ids = await snowlease(options);
  app.decorate("ids", ids);
  // Called after the last request was answered.
  app.addHook("onClose", () => ids.close());
  // Lost for good (a worker ID that was asked for by name): the supervisor of this process starts it again.
  ids.lease.signal.addEventListener("abort", () => {
    process.exitCode = 1;
    void app.close();
  });
}
// For the server itself, not for this plugin alone; what the package fastify-plugin does.
snowflakes[Symbol.for("skip-override")] = true;

const app = Fastify();
app.register(snowflakes);

app.post("/orders", async (_request, reply) => {
  // Waits for up to 5 s where there is none at once: a full millisecond, a window that has to be renewed first.
  const id = await app.ids.nextAsync();
  return reply.code(201).send({ id: String(id) });
});

// No worker ID, or no time left on it: another instance may have some, and this one may later.
app.setErrorHandler((error, _request, reply) => {
  if (!isSnowleaseError(error)) throw error;
  const seconds = Math.ceil((error.details.retryAfterMs ?? 1000) / 1000);
  return reply.code(503).header("Retry-After", seconds).send({ code: error.code });
});

console.log(await app.listen({ port: Number(process.env.PORT ?? 3000), host: "127.0.0.1" }));
process.once("SIGTERM", () => void app.close());
