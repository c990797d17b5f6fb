import { text } from "../../api/answers.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import type { EventStreams } from "../monitoring/event-streams.ts";
import type { AppContext } from "./context.ts";
import { otherRoute, type Route } from "./route.ts";

/** What happens in a namespace, as this daemon sees it. */
export function eventRoutes({ registry }: AppContext, streams: EventStreams | undefined): readonly Route[] {
  if (streams === undefined) return [];
  return [
    otherRoute({
      method: "GET",
      path: "/v1/:namespace/events",
      summary:
        "The events of a namespace that this daemon sees, as server-sent events; continues behind a Last-Event-ID, after `missed` where older events are forgotten",
      access: "read",
      signedIn: true,
      status: 200,
      answer: text,
      media: "text/event-stream",
      problems: ["NOT_FOUND", "RATE_LIMITED"],
      async handle({ namespace, visit }) {
        const { request, client } = visit;
        await presentNamespace(registry, namespace);
        // An answer to HEAD has no body: a stream would never be read or ended.
        const from = request.headers.get("last-event-id");
        const body = request.method === "HEAD" ? null : streams.start(namespace, from, client, () => visit.admit());
        // A proxy that collects an answer before it passes it on would keep events back.
        const headers = {
          "content-type": "text/event-stream",
          "cache-control": "no-store",
          "x-accel-buffering": "no",
        };
        return new Response(body, { headers });
      },
    }),
  ];
}
