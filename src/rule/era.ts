import type { Checkpoint, Usage } from "./registry.ts";
import type { NamespaceInfo, NamespaceLimits } from "./limits.ts";
import type { Receipt } from "./receipt.ts";
import type { Stored } from "./window.ts";

/*
 * The rule for a store that may have forgotten acknowledged writes: it lost the last ones, was put back to an older copy, or is empty. The
 * store detects this in its own way, or by a holder's receipt. Then it is in quarantine: it grants and renews nothing until every window
 * that it may have granted has passed. A new era begins with the quarantine. In it, only the claims of older records count, not the usage
 * that their holders reported. (Redis repeats this in `sql/redis`.)
 */

/** A part of a store's life in which it forgot nothing. */
export interface Era {
  /** A number and random digits, as text: if two copies of a store begin an era at the same moment, their texts differ. */
  readonly era: string;
  /** The end of the last quarantine, Unix ms; it never decreases. 0 if there was none. */
  readonly quarantineEnd: number;
  /**
   * When grants and renewals go on, Unix ms: `quarantineEnd`, unless an operator ended the quarantine earlier. No window of this era begins
   * before it, and fences of this era are above it.
   */
  readonly opensAt: number;
}

/** A namespace as one step of an operation finds it. */
export interface NamespaceState extends Era {
  readonly info: NamespaceInfo;
  /** The registry's clock, Unix ms. */
  readonly clock: number;
}

/** `opensAt` of a namespace that is being removed, which never opens: the last time that a `Date` shows, Unix ms. */
export const neverOpens = 8.64e15;

/** Whether the namespace of this era is being removed: `rule/removal.ts`. */
export function isSealed({ opensAt }: Pick<Era, "opensAt">): boolean {
  return opensAt === neverOpens;
}

/**
 * The digits of an era begin with this if a namespace of the same name was removed. Then follows the time until which its windows lasted.
 */
const removedMark = "de1e7ed";
/** The number of hex digits of that time. */
const timeDigits = 14;
const ofRemoved = new RegExp(`^\\d+-${removedMark}([\\da-f]{${timeDigits}})`);

/**
 * The time until which the windows of a removed namespace of this name lasted, Unix ms; 0 if there was none. The store has forgotten these
 * windows. So no window begins before this time, whatever an operator confirms later.
 */
export function forgottenUntil(era: string): number {
  const [, time = "0"] = ofRemoved.exec(era) ?? [];
  return Number.parseInt(time, 16);
}

/** Whether a quarantine is due to a removed namespace. Operators cannot end such a quarantine. */
export function isOfRemoved({ era, opensAt }: Pick<Era, "era" | "opensAt">): boolean {
  return opensAt <= forgottenUntil(era);
}

/** The text of an era. */
function eraText(number: number, forgotten: number, digits: string): string {
  const time = forgotten.toString(16).padStart(timeDigits, "0");
  return `${number}-${forgotten === 0 ? "" : removedMark + time}${digits}`;
}

/** The era to note under the name of a sealed namespace when it is removed. `mark`: as for any other era. */
export function removedEra({ era, quarantineEnd }: Era, mark: EraMark): Era {
  const next = eraText(Number.parseInt(era, 10) + 1, quarantineEnd, mark());
  return { era: next, quarantineEnd, opensAt: quarantineEnd };
}

/** Random digits for the text of an era. */
export type EraMark = () => string;

/** The first era of a namespace that begins without a quarantine. */
export function firstEra(clock: number, mark: EraMark): Era {
  return { era: `${clock}-${mark()}`, quarantineEnd: 0, opensAt: 0 };
}

/**
 * The era that begins now, in quarantine. `limits`: the assumed ones if the stored ones are unknown. `receipt`: proves that the store
 * forgot something; the larger limits count.
 */
export function nextEra(
  { era, quarantineEnd, opensAt }: Era,
  clock: number,
  { maxWindow, maxClockSkew }: NamespaceLimits,
  mark: EraMark,
  receipt?: Receipt,
): Era {
  const longest = Math.max(maxWindow, receipt?.maxWindow ?? 0);
  const widest = Math.max(maxClockSkew, receipt?.maxClockSkew ?? 0);
  const length = longest + 2 * widest;
  const stays = isSealed({ opensAt });
  // What an operator confirmed about earlier quarantines still holds.
  const opens = Math.max(clock + length, stays ? 0 : opensAt, receipt?.until ?? 0);
  const end = Math.max(opens, quarantineEnd);
  // The numbers of eras rise even if the store forgot the last eras.
  const number = Math.max(clock, ...[era, receipt?.era ?? "0"].map((each) => Number.parseInt(each, 10) + 1));
  const next = eraText(number, forgottenUntil(era), mark());
  return { era: next, quarantineEnd: end, opensAt: stays ? neverOpens : opens };
}

/**
 * The era after an operator confirmed that every forgotten window has passed. Windows still begin after every ms that a holder may have
 * used until now: the holder's clock may have been ahead of the store's clock, and the store's clock may be behind now, each by the
 * tolerated skew.
 */
export function openedEra(state: NamespaceState): Era {
  const { era, quarantineEnd, opensAt, clock, info } = state;
  return {
    era,
    quarantineEnd,
    opensAt: isSealed(state) ? opensAt : Math.min(opensAt, earliestOpening(era, clock, info)),
  };
}

/** The earliest time at which an operator can open a namespace, Unix ms. */
export function earliestOpening(
  era: string,
  clock: number,
  { maxClockSkew }: Pick<NamespaceLimits, "maxClockSkew">,
): number {
  return Math.max(forgottenUntil(era), clock + 2 * maxClockSkew + 1);
}

/** A record as a claim sees it. No holder continues after a record of an older era. */
export function recordIn({ era }: Pick<Era, "era">, record: Stored): Stored {
  return record.era === era ? record : { ...record, clean: false, recents: undefined };
}

/**
 * The record that a claim stores in place of `before`. A fence of a forgotten window does not come again: fences rise by less than one per
 * ms, so the registry's clock was never behind them, and an era opens after each time that a clock showed before.
 */
export function claimIn({ era, opensAt }: Era, record: Stored, before: Stored | undefined): Stored {
  const from = Math.max(record.from, opensAt);
  const fence = Math.max(before?.fence ?? 0, opensAt) + 1;
  return { ...record, era, fence, from, knownFrom: record.recents?.from ?? from };
}

/** The record that a renewal stores. A holder from an older era may use no time before the begin of this one. */
export function renewalIn({ era, opensAt }: Era, record: Stored): Stored {
  if (record.era === era) return record;
  const from = Math.max(record.from, opensAt);
  return { ...record, era, from, knownFrom: from, began: record.began ?? record.knownFrom };
}

/**
 * A holder's checkpoint; undefined if it is from before the end of the last quarantine: the store may have forgotten the end of that
 * window.
 */
export function checkpointIn(era: Era, checkpoint: Checkpoint | undefined, record: Stored): Checkpoint | undefined {
  return checkpoint !== undefined && isBefore(era, checkpoint.timestamp, record) ? undefined : checkpoint;
}

/**
 * The usage that a release stores; undefined if the store may have forgotten the end of the holder's window. Then the claim is from an
 * older era, or the holder did not get the answer to the renewal that raised the claim to this era.
 */
export function usageIn(era: Era, used: Usage | undefined, record: Stored): Usage | undefined {
  if (used === undefined) return undefined;
  if (record.token !== undefined && (record.era !== era.era || isBefore(era, used.until, record))) return undefined;
  return { ...used, checkpoint: checkpointIn(era, used.checkpoint, record) };
}

/** Whether a holder from before the last quarantine reports a time before that quarantine's end. */
function isBefore({ opensAt }: Era, timestamp: number, { fence }: Stored): boolean {
  return fence <= opensAt && timestamp < opensAt;
}
