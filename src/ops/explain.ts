import { type IdParts, Layout } from "../core/layout.ts";
import type { HistoryRow, Registry } from "../core/registry.ts";
import { noNamespace } from "../core/window.ts";
import { inspect, type Reading } from "./inspect.ts";

/** What an ID tells, and who can have made it. */
export interface Explanation {
  readonly id: bigint;
  /** The namespace's. */
  readonly layout: Layout;
  readonly parts: IdParts;
  /**
   * The claims whose window holds the ID's whole tick. Several where one holder continued behind another in that tick: then the
   * sequence tells them apart, and no record does. None: nobody held the worker ID then.
   */
  readonly holders: readonly HistoryRow[];
}

/**
 * Takes an ID apart by its namespace's layout, and looks up who held the worker ID at that time.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for a text that is no ID, or one that the layout
 * cannot hold, or where a time is missing.
 */
export async function explain(
  registry: Registry,
  namespace: string,
  text: string,
  reading: Reading = {},
): Promise<Explanation> {
  const info = await registry.describe(namespace);
  if (info === undefined) throw noNamespace(namespace);
  const layout = Layout.parse(info.layout);
  const { id, parts } = inspect(text, layout, reading);
  const from = parts.timestamp;
  const until = from + layout.tick;
  const met = await registry.history(namespace, parts.workerId, { from, until });
  // A tick that is only partly in a window cannot have been used by its holder.
  const holders = met.filter((row) => (row.continuedFrom ?? row.from) <= from && until <= row.until);
  return { id, layout, parts, holders };
}
