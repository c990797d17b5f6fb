import { type Era, type EraMark, nextEra } from "./era.ts";
import { assumedLimits } from "./limits.ts";
import { isUncovered, type Receipt } from "./receipt.ts";
import type { Lost, ReleaseRequest, RenewRequest } from "./registry.ts";
import { receiptIn, type Verdict } from "./verdict.ts";

/*
 * A holder of a namespace that does not exist: the store was emptied, or put back to a copy from before that namespace. A receipt makes no
 * namespace: it knows no layout. But the store notes an era under the name: a namespace that is made there later begins with it, in
 * quarantine. So a newcomer waits, although the holder asks only now and then.
 */

/** A name under which a store has no namespace. */
export interface UnknownNamespace {
  /** The registry's clock, Unix ms. */
  readonly clock: number;
  /** The era that the store noted under the name. */
  readonly noted: Era | undefined;
}

/** Decides a renewal. `begins`: the era to note. Once every window has passed that may have been forgotten, the lease is lost. */
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

/** The era to note for a receipt, which knows the limits of the namespace; undefined where the noted one covers it. */
export function eraToNote({ clock, noted }: UnknownNamespace, receipt: Receipt, mark: EraMark): Era | undefined {
  if (noted !== undefined && !isUncovered(receipt, noted)) return undefined;
  return nextEra(noted ?? noEra, clock, receipt, mark, receipt);
}

const noEra: Era = { era: "0-0", quarantineEnd: 0, opensAt: 0 };
