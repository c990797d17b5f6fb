import { setTimeout as sleep } from "node:timers/promises";
import { type Capability, conformance, type ConformanceResult, runCheck } from "../conformance.ts";
import { isSnowleaseError, type SnowleaseError } from "../id/errors.ts";
import type { Registry } from "../rule/registry.ts";
import type { OwnNamespaces } from "./namespaces.ts";

/** After so many checks in a row with the same refusal, the registry refuses every check. */
const mostRefused = 8;

/** The result of the registry contract. */
export interface ContractReport {
  readonly passed: number;
  readonly failed: readonly { readonly check: string; readonly reason: string }[];
  /** The refusal that check after check got, so that the other checks were not run. */
  readonly refused?: string | undefined;
  /** The checks that were not run, by the reason. */
  readonly skipped: Readonly<Record<string, readonly string[]>>;
}

/** What the checks run on. */
interface ContractSubject {
  readonly namespaces: OwnNamespaces;
  readonly lacks: Readonly<Partial<Record<Capability, string>>>;
  open(): Promise<Registry>;
  /** A clock near the registry's, Unix ms. */
  now(): number;
  /** As in `ConformanceSubject`, ms. */
  readonly longestWait: number;
}

/** Runs the registry contract, each check in a namespace of its own. Stops if the registry refuses check after check. */
export async function verifyContract(
  { namespaces, lacks, open, now, longestWait }: ContractSubject,
  { signal, tell }: { readonly signal: AbortSignal; readonly tell: (check: string, share: number) => void },
): Promise<ContractReport> {
  let passed = 0;
  const failed: ContractReport["failed"][number][] = [];
  const skipped: Record<string, string[]> = {};
  let refused: readonly SnowleaseError[] = [];

  function note(result: ConformanceResult): void {
    const { title } = result;
    if (result.outcome === "skipped") {
      (skipped[result.reason] ??= []).push(title);
    } else if (result.outcome === "failed") {
      const { error } = result;
      failed.push({ check: title, reason: error instanceof Error ? error.message : String(error) });
      const same = refused.filter(({ code }) => isSnowleaseError(error, code));
      refused = isSnowleaseError(error) ? [...same, error] : [];
    } else {
      passed++;
      refused = [];
    }
  }

  // Run one check after the other: while a request waits for another one, the clock that it sent becomes too old.
  for (const [place, check] of conformance.entries()) {
    if (signal.aborted || refused.length >= mostRefused) break;
    tell(check.title, place / conformance.length);
    const namespace = namespaces.next();
    note(await runCheck(check, async () => ({ namespace, open, pause: sleep, now, longestWait, lacks })));
  }
  if (refused.length < mostRefused) return { passed, failed, skipped };
  return { passed, failed: failed.slice(0, -mostRefused), skipped, refused: refused.at(-1)?.message };
}
