// Health and metrics of a service that makes IDs:
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 node examples/metrics.mjs
//   curl http://127.0.0.1:3000/readyz       # 200 while IDs can be made, else 503
//   curl http://127.0.0.1:3000/metrics      # what the lease goes through, for Prometheus
import { once } from "node:events";
import { createServer } from "node:http";
import { Counter, Gauge, register } from "prom-client";
import { snowlease } from "snowlease";

const ids = await snowlease();
const { lease } = ids;

/** How long IDs can be made without the registry, seconds. */
const left = () => (lease.state === "held" ? Math.max(0, lease.until - Date.now()) / 1000 : 0);

// With OpenTelemetry: meter.createObservableGauge(…).addCallback((result) => result.observe(left())).
const open = new Gauge({ name: "ids_window_seconds", help: "Time that the window has left" });
const events = new Counter({ name: "ids_lease_events_total", help: "Events of the lease", labelNames: ["event"] });
for (const event of ["renewed", "renew-failed", "switched", "lost", "clock.rollback", "clock.jump", "quarantine"]) {
  events.inc({ event }, 0);
  lease.on(event, () => events.inc({ event }));
}

async function answer(request, response) {
  if (request.url === "/readyz") return response.writeHead(left() > 0 ? 200 : 503).end();
  if (request.url !== "/metrics") return response.writeHead(404).end();
  open.set(left());
  return response.writeHead(200, { "content-type": register.contentType }).end(await register.metrics());
}

const server = createServer((request, response) => void answer(request, response));
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${server.address().port}`);
process.once("SIGTERM", () => server.close(() => void ids.close()));
