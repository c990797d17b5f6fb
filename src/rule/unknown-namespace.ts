import { type Era, type EraMark, nextEra } from "./era.ts";
import { assumedLimits } from "./limits.ts";
import { isUncovered, type Receipt } from "./receipt.ts";
import type { Lost, ReleaseRequest, RenewRequest } from "./registry.ts";
import { receiptIn, type Verdict } from "./verdict.ts";

/*
 * Requests of a holder in a namespace that does not exist: the store was emptied, or put back to a copy from before that namespace. The
 * store cannot make the namespace from a receipt, which has no layout. But it notes an era under the name: a later namespace of this name
 * begins with that era, in quarantine. So a new claim waits, even if the holder asks only rarely.
 */

/** A name under which a store has no namespace. */
export interface UnknownNamespace {
  /** The registry's clock, Unix ms. */
  readonly clock: number;
  /** The era that the store noted under the name. */
  readonly noted: Era | undefined;
}

/** Decides a renewal. `begins`: the era to note. After every window that may have been forgotten has passed, the lease is lost. */
export function decideUnknownRenewal(unknown: UnknownNamespace, request: RenewRequest, mark: EraMark): Verdict<Lost> {
  const receipt = receiptIn(request);
  if (receipt === undefined) return { answer: { outcome: "lost" } };
  const begins = eraToNote(unknown, receipt, mark);
  const { clock, noted } = unknown;
  const { era, opensAt } = begins ?? noted ?? noEra;
  if (clock >= opensAt) return { begins, answer: { outcome: "lost", reason: "forgotten" } };
  const { namespace } = request;
  const { maxClockSkew } = assumedLimits;
  return { begins, answer: { outcome: "quarantine", namespace, era, clock, opensAt, maxClockSkew, isUnknown: true } };
}

/** Decides a release: a process that ends does not wait for the end of a quarantine. `begins`: as above. */
export function decideUnknownRelease(unknown: UnknownNamespace, request: ReleaseRequest, mark: EraMark): Verdict<Lost> {
  const receipt = receiptIn(request);
  if (receipt === undefined) return { answer: { outcome: "lost" } };
  return { begins: eraToNote(unknown, receipt, mark), answer: { outcome: "lost", reason: "forgotten" } };
}

/** The era to note for a receipt, which knows the limits of the namespace; undefined if the noted era covers it. */
export function eraToNote({ clock, noted }: UnknownNamespace, receipt: Receipt, mark: EraMark): Era | undefined {
  if (noted !== undefined && !isUncovered(receipt, noted)) return undefined;
  return nextEra(noted ?? noEra, clock, receipt, mark, receipt);
}

const noEra: Era = { era: "0-0", quarantineEnd: 0, opensAt: 0 };
