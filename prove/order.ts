import type { ClaimRequest } from "../src/rule/registry.ts";
import { findOrder, type Operation } from "./linearizability.ts";
import { type Call, keyOf, type RuleState, SequentialRegistry } from "./sequential.ts";

/** What came of looking for one order of all calls. */
export interface OrderVerdict {
  /** How many calls were given a place. */
  readonly calls: number;
  /** Of each worker ID whose calls no order explains, in words. */
  readonly findings: readonly string[];
  /** Worker IDs of which that is not known: the search was given up. */
  readonly undecided: readonly number[];
}

/** Before the search for the order on one worker ID is given up: within a minute. */
const mostPlaces = 50_000;
/** Calls of an order that are told. */
const mostTold = 8;

/** Whether the calls on each worker ID are answered as if they had been done one by one. */
export function checkOrder(calls: readonly Call[], limit: number = mostPlaces): OrderVerdict {
  const registry = new SequentialRegistry(calls);
  const findings: string[] = [];
  const undecided: number[] = [];
  let count = 0;
  for (const workerId of registry.workerIds) {
    const operations = registry.operationsOn(workerId);
    count += operations.filter(({ atMost }) => atMost === undefined).length;
    const found = findOrder(operations, registry.begin, keyOf, limit);
    if (found.outcome === "undecided") undecided.push(workerId);
    if (found.outcome === "none")
      findings.push(wordsOf(workerId, operations, found.order as typeof operations, found.state));
  }
  return { calls: count, findings, undecided };
}

/** The last calls of the longest order, what they leave behind, and those of which none fits there. */
function wordsOf(
  workerId: number,
  operations: readonly (Operation<RuleState> & { readonly call: Call })[],
  order: readonly (Operation<RuleState> & { readonly call: Call })[],
  { record }: RuleState,
): string {
  const placed = new Set<Operation<RuleState>>(order);
  const left = operations.filter((operation) => operation.atMost === undefined && !placed.has(operation));
  const bound = Math.min(...left.map(({ answered }) => answered));
  const open = left.filter(({ asked }) => asked <= bound);
  const lines = (calls: typeof operations): string =>
    calls.map((each) => `\n    ${callText(each.call)}${each.atMost === undefined ? "" : " (not told)"}`).join("");
  return `the calls on worker ${workerId} have no order. After${lines(order.slice(-mostTold))}\n  the record is ${recordText(record)}, and none of these fits:${lines(open)}`;
}

function callText({ method, request, answer, caller, asked, answered }: Call): string {
  const { holder: _, pool: __, layout: ___, ...what } = request as Partial<ClaimRequest>;
  return `${caller}, ${asked} to ${answered}: ${method} ${JSON.stringify(what)} -> ${JSON.stringify(answer) ?? "no answer"}`;
}

function recordText(record: RuleState["record"]): string {
  const { holder: _, ...rest } = record ?? {};
  return record === undefined ? "none" : JSON.stringify(rest);
}
