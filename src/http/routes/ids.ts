import { historyJson } from "../../api/codec.ts";
import * as ids from "../../api/ids.ts";
import { encodings } from "../../id/encodings.ts";
import { explain } from "../../ops/explain.ts";
import type { IdMaker } from "../../ops/ids.ts";
import type { AppContext } from "./context.ts";
import { type Route, route } from "./route.ts";

/** Memory for one ID while an answer is made, bytes: the bigint, its text, its place in a list and in the JSON. */
const bytesOfId = 80;
/** Answers with at most this many IDs do not count against the memory for answers. */
const fewIds = 100;

/** The route that explains an ID. */
export function explainRoute({ registry }: AppContext): Route {
  return route(ids.explain, async ({ namespace, id, query }) => {
    const found = await explain(registry, namespace, id, query);
    const { format, layout, parts, holders, unheld, rounded } = found;
    const time = new Date(parts.timestamp).toISOString();
    const made = { id: String(found.id), format, layout: layout.fingerprint, time, ...parts };
    return {
      ...made,
      holders: holders.map(historyJson),
      ...(unheld !== undefined && { unheld }),
      ...(rounded && { rounded }),
    };
  });
}

/** The route that makes IDs on the daemon's own lease. */
export function makeRoute(source: Pick<IdMaker, "holds" | "take">): Route {
  return route(ids.make, async ({ namespace, visit, body: { count = 1, format = "decimal" } }) => {
    if (!source.holds(namespace)) {
      visit.countClaim();
      await visit.present();
    }
    if (count > fewIds) visit.hold(count * bytesOfId);
    const made = await source.take(namespace, count, () => visit.checkWanted());
    return { ids: Array.from(made, encodings[format].encode) };
  });
}
