import { flawNames } from "./checker.ts";
import { type FaultKind, faultKinds } from "./plan.ts";
import type { Outcome } from "./prove.ts";

/** What was done to what, how often, and what came of it: a column a registry. */
export function tableOf(outcomes: ReadonlyMap<string, Outcome>): string {
  const columns = [...outcomes.values()];
  const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);
  const row = (name: string, count: (outcome: Outcome) => number): string[] => {
    const counts = columns.map(count);
    return [name, ...counts.map(figure), figure(sum(counts))];
  };
  const kinds = Object.keys(faultKinds) as FaultKind[];
  const rows = [
    ["", ...outcomes.keys(), "all"],
    ...kinds.map((kind) => row(kind, ({ faults }) => faults.get(kind) ?? 0)),
    row("faults", ({ faults }) => sum([...faults.values()])),
    [],
    row("processes", ({ lives }) => lives),
    row("leases", ({ leases }) => leases),
    row("refusals", ({ errors }) => sum(Object.values(errors))),
    row("IDs", ({ ids }) => ids),
    [],
    ...flawNames.map(([flaw, name]) => row(name, ({ flaws }) => flaws[flaw])),
    row("worker IDs that stay stuck", ({ stuck }) => stuck.length),
    row("holders that ended by themselves", ({ crashes }) => crashes.length),
  ];
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((each) => each[i]?.length ?? 0))) ?? [];
  const line = (cells: readonly string[]): string =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  return rows.map((cells) => line(cells).trimEnd()).join("\n");
}

function figure(count: number): string {
  return count.toLocaleString("en");
}
