import { explainAnswer, idsAnswer } from "../../api/answers.ts";
import { historyJson } from "../../api/codec.ts";
import { explainQuery, idsBody } from "../../api/requests.ts";
import { encodings } from "../../id/encodings.ts";
import { explain } from "../../ops/explain.ts";
import type { IdMaker } from "../../ops/ids.ts";
import type { AppContext } from "./context.ts";
import { type Route, route } from "./route.ts";

/** Memory for an ID in an answer that is being made, bytes: the number, its text, its place in a list and in the JSON. */
const bytesOfId = 80;
/** Answers of at most so many IDs do not count against the memory for answers. */
const fewIds = 100;

/** IDs of the daemon's own lease, and what an ID tells. */
export function idRoutes({ registry }: AppContext, source: IdMaker | undefined): readonly Route[] {
  const explained = route({
    method: "GET",
    path: "/v1/:namespace/ids/:id",
    summary: "Decode an ID, and list the holders of its worker ID at that time",
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
