import { text } from "../../api/answers.ts";
import type { Metrics } from "../monitoring/metrics.ts";
import { otherRoute, type Route } from "./route.ts";

/** The figures, where there are some. */
export function metricsRoutes(metrics: Metrics | undefined): readonly Route[] {
  if (metrics === undefined) return [];
  return [
    otherRoute({
      method: "GET",
      path: "/metrics",
      summary: "Figures for Prometheus, in its text format",
      access: "read",
      status: 200,
      answer: text,
      media: "text/plain",
      async handle() {
        const headers = { "content-type": metrics.contentType, "cache-control": "no-store" };
        return new Response(await metrics.text(), { headers });
      },
    }),
  ];
}
