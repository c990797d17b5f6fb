import { z } from "zod";
import type { Pong } from "../rule/registry.ts";
import type { Call } from "./call.ts";
import { answer } from "./schema.ts";

interface ReadyAnswer extends Pong {
  readonly registry: string;
}

export const health: Call<{ readonly status: "ok" }> = {
  method: "GET",
  path: "/healthz",
  operation: "isAlive",
  summary: "Whether this daemon runs",
  access: "open",
  answer: answer({ status: z.literal("ok") }),
};

export const readiness: Call<ReadyAnswer> = {
  method: "GET",
  path: "/readyz",
  operation: "isReady",
  summary: "Whether the registry answers and the clocks agree; if not, 503 with the reason as its code",
  access: "any",
  answer: answer<ReadyAnswer>({
    registry: z.string().describe("The kind of store behind this daemon."),
    clock: z.int().describe("The registry's clock, Unix ms."),
    durability: z.string().describe("What acknowledged writes survive there."),
    lossy: z
      .boolean()
      .describe("Whether they may be lost with the process or the machine of the registry's server.")
      .optional(),
    schema: z.int().describe("Version of what is stored there.").optional(),
    behind: z.string().describe("Where that is a daemon: the kind of the store behind it.").optional(),
    unguarded: z.boolean().describe("Whether it asks for no password, although it is given one.").optional(),
  }),
};

export const description: Call<Readonly<Record<string, unknown>>> = {
  method: "GET",
  path: "/openapi.json",
  operation: "describeApi",
  summary: "This description",
  access: "open",
  answer: z.record(z.string(), z.unknown()),
};

export const events: Call<string> = {
  method: "GET",
  path: "/v1/:namespace/events",
  operation: "followEvents",
  summary:
    "The events of a namespace that this daemon sees, as server-sent events; continues behind a Last-Event-ID, after `missed` where older events are forgotten",
  access: "read",
  signedIn: true,
  answer: z.string(),
  media: "text/event-stream",
  problems: ["NOT_FOUND", "RATE_LIMITED"],
};

export const metrics: Call<string> = {
  method: "GET",
  path: "/metrics",
  operation: "readMetrics",
  summary: "Figures for Prometheus, in its text format",
  access: "read",
  answer: z.string(),
  media: "text/plain",
};
