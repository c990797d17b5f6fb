import { SnowleaseError } from "../../id/errors.ts";
import { type Pong } from "../../rule/registry.ts";
import { checkSkew, defaultLimits } from "../../rule/limits.ts";
import { healthAnswer, openapiAnswer, readyAnswer } from "../../api/answers.ts";
import type { AppContext } from "./context.ts";
import { openapi } from "./openapi.ts";
import { HttpRefusal } from "../problem.ts";
import { constantRoute, type Route, route } from "./route.ts";

/** How long the registry may take before this daemon is not ready, ms: less than a health check waits, so that it hears the reason. */
const pingTimeout = 3000;

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

  const own: readonly Route[] = [
    route({
      method: "GET",
      path: "/healthz",
      summary: "Whether this daemon runs",
      access: "open",
      status: 200,
      answer: healthAnswer,
      async handle() {
        return { status: "ok" } as const;
      },
    }),

    route({
      method: "GET",
      path: "/readyz",
      summary: "Whether the registry answers and the clocks agree; if not, 503 with the reason as its code",
      access: "any",
      status: 200,
      answer: readyAnswer,
      async handle() {
        try {
          return { registry: registry.kind, ...(await pinged()) };
        } catch (cause) {
          if (!(cause instanceof SnowleaseError)) throw cause;
          // Always 503: the error is never the caller's.
          throw new HttpRefusal(503, cause.code, cause.message, { details: cause.details, cause });
        }
      },
    }),

    constantRoute(
      {
        method: "GET",
        path: "/openapi.json",
        summary: "This description",
        access: "open",
        status: 200,
        answer: openapiAnswer,
      },
      () => openapi([...routes, ...own], hasTokens),
    ),
  ];
  return own;
}
