import { lengthText } from "../../id/duration.ts";
import { timeText } from "../../id/errors.ts";
import { version } from "../../assets.ts";
import type { VerifyReport } from "../../verify/verify.ts";
import { linesOf, table } from "./output.ts";

/** What a report is about. */
interface VerifyContext {
  /** The URL, without a password. */
  readonly registry: string;
  /** Unix ms. */
  readonly begun: number;
  readonly ended: number;
}

/** The report of a verification, as text for a ticket. */
export function verifyText(report: VerifyReport, { registry, begun, ended }: VerifyContext): string {
  const { kind, behind, durability, ahead, seed, removal, notRun } = report;
  const difference = ahead === 0 ? "the same as" : `${Math.abs(ahead)} ms ${ahead > 0 ? "ahead of" : "behind"}`;
  const facts = table(
    ["REGISTRY", registry],
    [
      ["KIND", behind === undefined ? kind : `${kind}, in front of ${behind}`],
      ["DURABILITY", durability],
      ["CLOCK", `${difference} this host's`],
      ["VERSIONS", `snowlease ${version()}, Node ${process.version}, ${process.platform} ${process.arch}`],
      ["RUN", `${timeText(begun)}, ${lengthText(ended - begun)}`],
      ["SEED", String(seed)],
      ...partsOf(report),
      ["REMOVED", `${removal.removed} namespaces`],
    ],
  );
  return linesOf(facts, notRun.length > 0 && `\nNot run:\n${listOf(notRun)}`, `\n${verdictOf(report)}`);
}

function verdictOf({ restarts, nemesis, failures, isInterrupted }: VerifyReport): string {
  if (failures.length > 0) return `FAILED:\n${listOf(failures)}`;
  if (isInterrupted) return "INTERRUPTED: what was run until then, passed.";
  const ids = (restarts?.ids ?? 0) + (nemesis?.ids ?? 0);
  return ids > 0 ? "PASSED: no ID came twice." : "PASSED: no ID was made.";
}

function partsOf({ contract, restarts, nemesis }: VerifyReport): (readonly [string, string])[] {
  const parts: (readonly [string, string])[] = [];
  if (contract !== undefined) {
    const { passed, failed, skipped } = contract;
    const notRun = Object.values(skipped).flat().length;
    parts.push(["CONTRACT", `${passed} checks passed, ${failed.length} failed, ${notRun} not run`]);
  }
  if (restarts !== undefined) {
    const { cases, ids, failures } = restarts;
    const refused = cases.reduce((sum, each) => sum + sumOf(each.refusals), 0);
    const times = cases.flatMap(({ recovered }) => (recovered === undefined ? [] : [lengthText(recovered)]));
    const recovered = times.length === 0 ? "" : `; IDs again after a restart of the server: ${times.join(", ")}`;
    const what = `${cases.length} cases, ${failures.length} failed: ${ids} IDs, ${refused} refusals${recovered}`;
    parts.push(["RESTARTS", what]);
  }
  if (nemesis !== undefined) {
    const { faults, ids, duplicates, refusals } = nemesis;
    const struck = Object.entries(faults).filter(([, count]) => count > 0);
    const what = struck.map(([name, count]) => `${count} ${name}`).join("; ");
    parts.push(["NEMESIS", `${ids} IDs, ${duplicates} of them more than once, ${sumOf(refusals)} refusals`]);
    parts.push(["FAULTS", what]);
  }
  return parts;
}

function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function listOf(items: readonly string[]): string {
  return items.map((item) => `- ${item}`).join("\n");
}
