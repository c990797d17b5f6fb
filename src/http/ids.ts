import { z } from "zod";
import { encodings, type EncodingName } from "../id/encodings.ts";
import { explain, type Explanation } from "../ops/explain.ts";
import type { IdMaker } from "../ops/ids.ts";
import type { Reading } from "../ops/inspect.ts";
import { type HistoryJson, historyRow } from "../registries/daemon/answers.ts";
import { historyJson } from "../registries/daemon/codec.ts";
import type { AppContext } from "./context.ts";
import { type Route, route } from "./route.ts";

const mostIds = 100_000;
/** What an ID takes while an answer is made of it, bytes: 8, a text of its own, its place in a list, and in the JSON. */
const bytesOfId = 80;
/** As many IDs make an answer that is not worth counting. */
const fewIds = 100;
const countRule = `to be an integer from 1 to ${mostIds}`;
const names = Object.keys(encodings) as EncodingName[];
const format = z.enum(names, `to be one of ${names.join(", ")}`).optional();

const idsBody: z.ZodType<{ readonly count?: number | undefined; readonly format?: EncodingName | undefined }> =
  z.strictObject({
    count: z.int(countRule).min(1, countRule).max(mostIds, countRule).describe("Default 1.").optional(),
    format: format.describe("Default decimal."),
  });

const idsAnswer: z.ZodType<{ readonly ids: readonly string[] }> = z.object({ ids: z.array(z.string()) });

const explainQuery: z.ZodType<Reading> = z.strictObject({
  format: format.describe("Default: told by its look."),
  at: z
    .int("to be Unix ms")
    .min(0, "to be Unix ms")
    .describe("A time near its making, Unix ms: for a layout whose timestamp wraps.")
    .optional(),
});

interface ExplainAnswer {
  readonly id: string;
  readonly layout: string;
  readonly timestamp: number;
  readonly time: string;
  readonly workerId: number;
  readonly sequence: number;
  readonly fields: Readonly<Record<string, number>>;
  readonly rollback?: number | undefined;
  readonly holders: readonly HistoryJson[];
  readonly nobody?: Explanation["nobody"];
}

const explainAnswer: z.ZodType<ExplainAnswer> = z.object({
  id: z.string().describe("The ID in decimal."),
  layout: z.string(),
  timestamp: z.int().describe("When its tick begins, Unix ms."),
  time: z.iso.datetime(),
  workerId: z.int(),
  sequence: z.int(),
  fields: z.record(z.string(), z.int()).describe("The identity fields one by one."),
  rollback: z.int().describe("How often the clock had gone back; only in a layout with such bits.").optional(),
  holders: z
    .array(historyRow)
    .describe(
      "The claims whose window holds the timestamp; several where one continued behind another; none: nobody's.",
    ),
  nobody: z
    .object({ why: z.enum(["future", "foreign", "pinned", "unused", "early", "gap"]), detail: z.string() })
    .describe("Why there are no holders.")
    .optional(),
});

/** IDs of the daemon's own lease, and what an ID tells. */
export function idRoutes({ registry }: AppContext, source: IdMaker | undefined): readonly Route[] {
  const explained = route({
    method: "GET",
    path: "/v1/:namespace/ids/:id",
    summary: "Take an ID apart, and say who held its worker ID then",
    access: "read",
    status: 200,
    query: explainQuery,
    answer: explainAnswer,
    problems: ["NOT_FOUND"],
    async handle({ namespace, id, query }) {
      const found = await explain(registry, namespace, id, query);
      const { layout, parts, holders, nobody } = found;
      const time = new Date(parts.timestamp).toISOString();
      const made = { id: String(found.id), layout: layout.fingerprint, time, ...parts };
      return { ...made, holders: holders.map(historyJson), ...(nobody !== undefined && { nobody }) };
    },
  });
  if (source === undefined) return [explained];

  const made = route({
    method: "POST",
    path: "/v1/:namespace/ids",
    summary: "Make IDs, on the daemon's own lease",
    access: "worker",
    status: 200,
    body: idsBody,
    answer: idsAnswer,
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
    async handle({ namespace, visit, body: { count = 1, format = "decimal" } }) {
      if (!source.holds(namespace)) {
        visit.countClaim();
        await visit.present();
      }
      if (count > fewIds) visit.hold(count * bytesOfId);
      const ids = await source.take(namespace, count, () => visit.checkWanted());
      return { ids: Array.from(ids, encodings[format].encode) };
    },
  });
  return [made, explained];
}
