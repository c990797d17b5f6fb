import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import type { NamespaceState } from "../../rule/era.ts";
import { highestRow } from "./history.ts";
import type { Nodes } from "./nodes.ts";
import { jsonBytes, recordBytes, type StoredNode } from "./records.ts";
import type { Exchange, Node, Write } from "./session.ts";

/** The writes that put a record in the place of `before`, which has to be unchanged. */
export function put(
  nodes: Nodes,
  stored: Stored,
  before: StoredNode | undefined,
  sticky: boolean = before?.sticky ?? false,
): Write[] {
  const [path, data] = [nodes.state(stored.workerId), recordBytes(stored, sticky, before)];
  if (before !== undefined) return [{ op: "set", path, data, version: before.version }];
  return [
    { op: "create", path, data, contested: true },
    // Created with the record: where only this node exists, an operator deleted the record by hand.
    { op: "create", path: nodes.rows(stored.workerId), contested: true },
  ];
}

/**
 * The write that goes with each change of a record without a claim. Only such records are deleted, so a version of one may come again.
 * `hints`: the parent of the hints as it was read.
 */
export function guardUnused(nodes: Nodes, before: StoredNode | undefined, hints: Node | undefined): Write[] {
  if (before?.record.fence !== 0) return [];
  return [{ op: "set", path: nodes.hints, data: jsonBytes(0), version: hints?.version ?? 0 }];
}

/**
 * Creates a record where an operator deleted one by hand: its number rests as long as any window of it may be open, and the fence is
 * above all earlier ones. Changes nothing where a record exists by now.
 */
export async function replaceLost(
  exchange: Exchange,
  nodes: Nodes,
  workerId: number,
  { info: { maxWindow, maxClockSkew }, clock }: NamespaceState,
): Promise<void> {
  // The last claim may have no row yet.
  const fence = (await highestRow(exchange, nodes.rows(workerId))) + 1;
  const until = clock + maxWindow + maxClockSkew;
  const lost: Stored = { ...unusedRecord(workerId), fence, from: until, until, knownFrom: until };
  await exchange((session) => session.create(nodes.state(workerId), recordBytes(lost, false)));
}

/** The write that removes the record's token from the index. */
export function forgetToken(nodes: Nodes, before: StoredNode | undefined): Write[] {
  const token = before?.record.token;
  return token === undefined ? [] : [{ op: "remove", path: nodes.token(token) }];
}

/** The writes that file a worker ID under another name: of its host, or of its owner. `pathOf`: its node below a name. */
export function refile(pathOf: (name: string) => string, from: string | undefined, to: string | undefined): Write[] {
  if (from === to) return [];
  const writes: Write[] = [];
  if (from !== undefined) writes.push({ op: "remove", path: pathOf(from) });
  if (to !== undefined) writes.push({ op: "create", path: pathOf(to) });
  return writes;
}
