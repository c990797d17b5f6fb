import { z } from "zod";
import { defaultLimits } from "../core/registry.ts";
import { checkSkew } from "../core/window.ts";
import { readyAnswer } from "../registries/daemon/answers.ts";
import type { AppContext } from "./context.ts";
import { openapi } from "./openapi.ts";
import { type Route, route } from "./route.ts";

/** Liveness, readiness, and the description of all routes. */
export function systemRoutes({ registry, clock, limits }: AppContext, routes: readonly Route[]): readonly Route[] {
  let description: unknown;
  const own: readonly Route[] = [
    route({
      method: "GET",
      path: "/healthz",
      summary: "Whether this daemon runs",
      status: 200,
      answer: z.object({ status: z.literal("ok") }),
      async handle() {
        return { status: "ok" } as const;
      },
    }),

    route({
      method: "GET",
      path: "/readyz",
      summary: "Whether its registry answers, and their clocks agree",
      status: 200,
      answer: readyAnswer,
      problems: ["CLOCK_SKEW"],
      async handle() {
        const pong = await registry.ping();
        checkSkew(clock.now(), pong.clock, { layout: "", ...defaultLimits, ...limits });
        return { registry: registry.kind, ...pong };
      },
    }),

    route({
      method: "GET",
      path: "/openapi.json",
      summary: "This description",
      status: 200,
      answer: z.record(z.string(), z.unknown()),
      async handle() {
        return (description ??= openapi([...routes, ...own])) as Record<string, unknown>;
      },
    }),
  ];
  return own;
}
