import { choices } from "./choices.ts";
import type { ConformanceCheck } from "./check.ts";
import { continuing } from "./continuing.ts";
import { copies } from "./copies.ts";
import { grants } from "./grants.ts";
import { lateWrites } from "./late-writes.ts";
import { listings } from "./listings.ts";
import { lostAnswers } from "./lost-answers.ts";
import { namespaces } from "./namespaces.ts";
import { operators } from "./operators.ts";
import { overlaps } from "./overlaps.ts";
import { owners } from "./owners.ts";
import { quarantines } from "./quarantines.ts";
import { receipts } from "./receipts.ts";
import { releases } from "./releases.ts";
import { removals } from "./removals.ts";
import { renewals } from "./renewals.ts";
import type { ConformanceSubject } from "./subject.ts";
import { turns } from "./turns.ts";

/** The registry contract: every requirement of the port as a check with a title. It runs in any test runner, or without one. */
export const conformance: readonly ConformanceCheck[] = [
  namespaces,
  grants,
  choices,
  renewals,
  releases,
  continuing,
  operators,
  owners,
  turns,
  receipts,
  quarantines,
  copies,
  removals,
  lateWrites,
  lostAnswers,
  listings,
  overlaps,
].flat();

/** The result of one check. */
export type ConformanceResult =
  | { readonly title: string; readonly outcome: "passed" }
  | { readonly title: string; readonly outcome: "skipped"; readonly reason: string }
  | { readonly title: string; readonly outcome: "failed"; readonly error: unknown };

/** Runs one check on a subject made for it, then closes the subject. Rejects only if making or closing the subject fails. */
export async function runCheck(
  check: ConformanceCheck,
  makeSubject: () => Promise<ConformanceSubject>,
): Promise<ConformanceResult> {
  const { title, needs = [] } = check;
  const subject = await makeSubject();
  try {
    const lacks = { ...without(subject), ...subject.lacks };
    const reason = needs.map((need) => lacks[need]).find((lack) => lack !== undefined);
    if (reason !== undefined) return { title, outcome: "skipped", reason };
    await check.run(subject);
    return { title, outcome: "passed" };
  } catch (error) {
    return { title, outcome: "failed", error };
  } finally {
    await subject.close?.();
  }
}

/** What a subject lacks because it has no `late` or no `lossy`. */
function without({ late, lossy }: ConformanceSubject): ConformanceSubject["lacks"] {
  return {
    ...(late === undefined && { "late-writes": "the subject has no `late`: it keeps no write on its way" }),
    ...(lossy === undefined && { "lost-answers": "the subject has no `lossy`: it loses no answer" }),
  };
}

/** Runs all checks, each on a subject of its own. */
export async function* runConformance(
  makeSubject: () => Promise<ConformanceSubject>,
): AsyncGenerator<ConformanceResult, void, undefined> {
  for (const check of conformance) yield await runCheck(check, makeSubject);
}
