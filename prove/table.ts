import { type Course, flawNames } from "./checker.ts";
import { type FaultKind, faultKinds } from "./plan.ts";
import type { Outcome } from "./prove.ts";

/** Which faults struck, how often, and the results: one column for each registry. */
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
    ...languageRows(),
    ...courseRows("restores", "the first word after one", ({ restores }) => restores),
    ...courseRows("copies", "LEASE_LOST after one", ({ copies }) => copies),
    [],
    ...flawNames.map(([flaw, name]) => row(name, ({ flaws }) => flaws[flaw])),
    row("worker IDs that stay stuck", ({ stuck }) => stuck.length),
    row("holders that ended by themselves", ({ crashes }) => crashes.length),
  ];
  function languageRows(): string[][] {
    const names = new Set(columns.flatMap(({ languages }) => [...languages.keys()]));
    return names.size < 2
      ? []
      : [...names].map((name) => row(`IDs in ${name}`, ({ languages }) => languages.get(name) ?? 0));
  }
  function courseRows(name: string, told: string, of: (outcome: Outcome) => Course): string[][] {
    if (columns.every((outcome) => of(outcome).count === 0)) return [];
    const times = (outcomes: readonly Outcome[]): string => {
      const { toldAfter } = joined(outcomes.map(of));
      return toldAfter.length === 0
        ? "-"
        : `${figure(Math.round(median(toldAfter)))} (${figure(Math.round(Math.max(...toldAfter)))})`;
    };
    return [
      [],
      row(name, (outcome) => of(outcome).count),
      row(`${name} that a holder was told of`, (outcome) => of(outcome).toldAfter.length),
      [`${told}, ms: median (most)`, ...columns.map((outcome) => times([outcome])), times(columns)],
      row(`IDs twice before it, by ${name}`, (outcome) => of(outcome).twice),
    ];
  }
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((each) => each[i]?.length ?? 0))) ?? [];
  const line = (cells: readonly string[]): string =>
    cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  ");
  return rows.map((cells) => line(cells).trimEnd()).join("\n");
}

function joined(courses: readonly Course[]): Pick<Course, "toldAfter"> {
  return { toldAfter: courses.flatMap(({ toldAfter }) => toldAfter) };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function figure(count: number): string {
  return count.toLocaleString("en");
}
