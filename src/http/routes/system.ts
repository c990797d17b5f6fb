import { createHash } from "node:crypto";
import { description, events, health, metrics, readiness } from "../../api/system.ts";
import type { Pong } from "../../rule/registry.ts";
import { checkSkew, defaultLimits } from "../../rule/limits.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import type { EventStreams } from "../monitoring/event-streams.ts";
import type { Metrics } from "../monitoring/metrics.ts";
import type { AppContext } from "./context.ts";
import { version } from "../../assets.ts";
import { openapi } from "../../api/openapi.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { tellable } from "../../serving/failure.ts";
import { type AnswerParts, HttpRefusal } from "../problem.ts";
import { rawRoute, type Route, route } from "./route.ts";

/** How long the registry may take before this daemon is not ready, ms. A health check waits longer, so that it gets the reason. */
const pingTimeout = 3000;

/** `x-accel-buffering` prevents that a proxy collects the answer and holds back events. */
const eventHeaders = { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" };

export function eventsRoute({ registry }: AppContext, streams: EventStreams): Route {
  return rawRoute(events, async ({ namespace, visit }) => {
    const { request, client } = visit;
    await presentNamespace(registry, namespace);
    const from = request.headers.get("last-event-id");
    // An answer to HEAD has no body. A stream would never be read or ended.
    const body = request.method === "HEAD" ? null : streams.start(namespace, from, client, () => visit.admit());
    return { status: 200, headers: eventHeaders, body };
  });
}

export function metricsRoute(figures: Metrics): Route {
  return rawRoute(metrics, async () => {
    const headers = { "content-type": figures.contentType, "cache-control": "no-store" };
    return { status: 200, headers, body: await figures.text() };
  });
}

/** Liveness, readiness, and the description of all routes. */
export function systemRoutes(
  { registry, clock, limits }: AppContext,
  routes: readonly Route[],
  hasTokens: boolean,
): readonly Route[] {
  /** @throws SnowleaseError REGISTRY_UNAVAILABLE when there is no answer in time, CLOCK_SKEW. */
  async function pinged(): Promise<Pong> {
    const answered = new AbortController();
    const late = clock.sleep(pingTimeout, { signal: answered.signal, keepAlive: false }).then((): never => {
      const what = `The ${registry.kind} registry behind this daemon did not answer within ${pingTimeout} ms; look at it, and at the daemon's log.`;
      throw new SnowleaseError("REGISTRY_UNAVAILABLE", what);
    });
    try {
      const pong = await Promise.race([registry.ping(), late]);
      checkSkew(clock.now(), pong.clock, { layout: "", ...defaultLimits, ...limits });
      return pong;
    } finally {
      answered.abort();
    }
  }

  let described: AnswerParts | undefined;

  const own: readonly Route[] = [
    route(health, async () => ({ status: "ok" })),

    route(readiness, async () => {
      try {
        return { registry: registry.kind, ...(await pinged()) };
      } catch (cause) {
        // Always 503, because the caller never causes the error.
        const { code, message, details } = tellable(cause);
        throw new HttpRefusal(503, code, message, { details, cause });
      }
    }),

    rawRoute(description, async ({ visit }) => {
      described ??= constantAnswer(JSON.stringify(openapi([...routes, ...own], { version: version(), hasTokens })));
      const { headers } = described;
      // A proxy that compresses answers makes their ETags weak.
      const isKnown = visit.request.headers.get("if-none-match")?.replace(/^W\//, "") === headers["etag"];
      return isKnown ? { status: 304, headers, body: null } : described;
    }),
  ];
  return own;
}

function constantAnswer(text: string): AnswerParts {
  const etag = `"${createHash("sha256").update(text).digest("hex").slice(0, 32)}"`;
  const headers = { "content-type": "application/json", "cache-control": "no-cache", etag };
  return { status: 200, headers, body: new TextEncoder().encode(text) };
}
