import { z } from "zod";
import type { EncodingName } from "../id/encodings.ts";
import type { IdParts } from "../id/layout.ts";
import type { Call } from "./call.ts";
import type { HistoryJson } from "./codec.ts";
import { format, integer, workerId } from "./fields.ts";
import { answer, parameters, request } from "./schema.ts";
import { historyRow } from "./workers.ts";

/** Most IDs of one request. */
export const mostIds = 100_000;
const reasons = ["future", "foreign", "pinned", "unused", "early", "gap"] as const;

interface IdsBody {
  readonly count?: number | undefined;
  readonly format?: EncodingName | undefined;
}

interface ExplainQuery {
  readonly format?: EncodingName | undefined;
  readonly at?: number | undefined;
}

interface ExplainAnswer extends IdParts {
  readonly id: string;
  readonly format: string;
  readonly layout: string;
  readonly time: string;
  readonly holders: readonly HistoryJson[];
  readonly rounded?: true | undefined;
  readonly unheld?: { readonly why: (typeof reasons)[number]; readonly detail: string } | undefined;
}

export const make: Call<{ readonly ids: readonly string[] }, IdsBody> = {
  method: "POST",
  path: "/v1/:namespace/ids",
  operation: "makeIds",
  example: { body: { count: 2, format: "base62" }, answer: { ids: ["1wrLCtUiudi", "1wrLCtUiudj"] } },
  summary: "Make IDs, on the daemon's own lease",
  access: "worker",
  body: request<IdsBody>({
    count: integer(1, mostIds).describe("Default 1.").optional(),
    format: format.describe("Default decimal."),
  }),
  answer: answer({ ids: z.array(z.string()) }),
  problems: [
    "POOL_EXHAUSTED",
    "RATE_LIMITED",
    "SEQUENCE_EXHAUSTED",
    "WINDOW_NOT_OPEN",
    "QUARANTINE",
    "LEASE_EXPIRED",
    "LEASE_LOST",
    "CLOCK_SKEW",
    "CLOCK_ROLLBACK",
    "LAYOUT_EXPIRED",
  ],
};

export const explain: Call<ExplainAnswer, undefined, ExplainQuery> = {
  method: "GET",
  path: "/v1/:namespace/ids/:id",
  operation: "explainId",
  summary: "Decode an ID, and list the holders of its worker ID at that time",
  access: "read",
  query: parameters<ExplainQuery>({
    format: format.describe("Default: recognized by its form."),
    at: z
      .int("to be Unix ms")
      .min(0, "to be Unix ms")
      .describe("A time near the creation of the ID, Unix ms: for a layout whose timestamp wraps.")
      .optional(),
  }),
  answer: answer<ExplainAnswer>({
    id: z.string().describe("The ID in decimal."),
    format: z.string().describe("The encoding as which the text of the ID was read."),
    layout: z.string().describe("The layout of the ID, as a notation."),
    timestamp: z.int().describe("When the tick of the ID begins, Unix ms."),
    time: z.iso.datetime().describe("The same time as an ISO 8601 text in UTC."),
    workerId: workerId.describe("The worker ID in the ID."),
    sequence: z.int().describe("The sequence of the ID within its tick."),
    fields: z.record(z.string(), z.int()).describe("The identity fields one by one."),
    rollback: z.int().describe("How often the clock had gone back; only in a layout with such bits.").exactOptional(),
    holders: z
      .array(historyRow)
      .describe(
        "The claims whose window contains the timestamp. Several: one holder continued behind another. Empty: `unheld` says why.",
      ),
    rounded: z
      .literal(true)
      .describe("The ID looks rounded to 53 bits: then worker ID and sequence are wrong.")
      .optional(),
    unheld: z
      .object({
        why: z
          .enum(reasons)
          .describe(
            "future: that time is to come. foreign: a program that records no windows has the worker ID. pinned: it was pinned, and not claimed yet. unused: it was never claimed. early: its first claim on record is later. gap: the time lies between two claims, or behind the last one.",
          ),
        detail: z.string().describe("The reason, in one sentence for people."),
      })
      .describe("Why there are no holders.")
      .optional(),
  }),
  problems: ["NOT_FOUND"],
};
