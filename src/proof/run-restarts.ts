import type { ConformanceResult } from "../conformance/run.ts";
import type { RestartCase } from "./restarts.ts";
import type { ProofNeed, ProofSubject } from "./subject.ts";

/** Runs one case on a subject made for it, then closes the subject. Rejects only when making or closing the subject fails. */
export async function runRestart(
  { title, needs, run }: RestartCase,
  makeSubject: () => Promise<ProofSubject>,
): Promise<ConformanceResult> {
  const subject = await makeSubject();
  try {
    const reason = needs.map((need) => lackOf(need, subject)).find((lack) => lack !== undefined);
    if (reason !== undefined) return { title, outcome: "skipped", reason };
    await run(subject);
    return { title, outcome: "passed" };
  } catch (error) {
    return { title, outcome: "failed", error };
  } finally {
    await subject.close?.();
  }
}

function lackOf(need: ProofNeed, { restart, noticesClock = true }: ProofSubject): string | undefined {
  switch (need) {
    case "restart":
      return restart === undefined ? "nothing says how to start the server again" : undefined;
    case "clock":
      return noticesClock ? undefined : "the registry does not notice a clock that is ahead";
  }
}
