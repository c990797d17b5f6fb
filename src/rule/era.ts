import type { Checkpoint, Usage } from "./registry.ts";
import type { NamespaceInfo, NamespaceLimits } from "./limits.ts";
import type { Receipt } from "./receipt.ts";
import type { Stored } from "./window.ts";

/*
 * The rule for a store that may have forgotten acknowledged writes: it lost the last ones, was put back to an older copy, or is empty.
 * Once it detects this in its own way or by a holder's receipt, it is in quarantine: it grants and renews nothing until every window has
 * passed that it may have granted. With that begins a new era, in which only the claims of older records count. (Redis repeats this in
 * `sql/redis`.)
 */

/** A part of a store's life in which it forgot nothing. */
export interface Era {
  /** Its number and random digits, as text: two copies of a store that begin an era at the same moment do not have the same one. */
  readonly era: string;
  /** The end of the last quarantine, Unix ms; never sinks. 0 where there was none. */
  readonly quarantineEnd: number;
  /**
   * When grants and renewals go on: `quarantineEnd`, unless an operator ended it earlier. No window of this era begins before it, and
   * fences of this era are above it.
   */
  readonly opensAt: number;
}

/** A namespace as one step of an operation finds it. */
export interface NamespaceState extends Era {
  readonly info: NamespaceInfo;
  /** The registry's clock, Unix ms. */
  readonly clock: number;
}

/** When a namespace opens that is being removed: never. The last time that a `Date` shows, Unix ms. */
export const neverOpens = 8.64e15;

/** Whether the namespace of this era is being removed: `rule/removal.ts`. */
export function isSealed({ opensAt }: Pick<Era, "opensAt">): boolean {
  return opensAt === neverOpens;
}

/** How the digits of an era begin where a namespace of the same name was removed. Then follows until when its windows lasted. */
const removedMark = "de1e7ed";
/** Hex digits of that time. */
const timeDigits = 14;
const ofRemoved = new RegExp(`^\\d+-${removedMark}([\\da-f]{${timeDigits}})`);

/**
 * Until when the windows lasted of a removed namespace of this name, Unix ms; 0 where there was none. The store has forgotten them, so no window
 * begins before that, whatever an operator confirms later.
 */
export function forgottenUntil(era: string): number {
  const [, time = "0"] = ofRemoved.exec(era) ?? [];
  return Number.parseInt(time, 16);
}

/** Whether a quarantine is that of a removed namespace, which no operator ends. */
export function isOfRemoved({ era, opensAt }: Pick<Era, "era" | "opensAt">): boolean {
  return opensAt <= forgottenUntil(era);
}

/** The text of an era. */
function eraText(number: number, forgotten: number, digits: string): string {
  const time = forgotten.toString(16).padStart(timeDigits, "0");
  return `${number}-${forgotten === 0 ? "" : removedMark + time}${digits}`;
}

/** The era to note under the name of a sealed namespace that is removed. `mark`: as of another era. */
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
 * The era that begins now, in quarantine. `limits`: the assumed ones where the stored ones are unknown. `receipt`: what shows that the store
 * forgot; the larger limits count.
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
  // An operator's word on the quarantines before still stands.
  const opens = Math.max(clock + length, stays ? 0 : opensAt, receipt?.until ?? 0);
  const end = Math.max(opens, quarantineEnd);
  // Eras rise even if the store forgot the last ones.
  const number = Math.max(clock, ...[era, receipt?.era ?? "0"].map((each) => Number.parseInt(each, 10) + 1));
  const next = eraText(number, forgottenUntil(era), mark());
  return { era: next, quarantineEnd: end, opensAt: stays ? neverOpens : opens };
}

/**
 * The era after an operator's word that every window has passed which the store forgot. Windows still begin behind every ms that a
 * holder may have used until now: by a clock that was ahead of the store's, which may be behind now, both as far as tolerated.
 */
export function openedEra(state: NamespaceState): Era {
  const { era, quarantineEnd, opensAt, clock, info } = state;
  return {
    era,
    quarantineEnd,
    opensAt: isSealed(state) ? opensAt : Math.min(opensAt, earliestOpening(era, clock, info)),
  };
}

/** When an operator's word opens a namespace at the earliest, Unix ms. */
export function earliestOpening(
  era: string,
  clock: number,
  { maxClockSkew }: Pick<NamespaceLimits, "maxClockSkew">,
): number {
  return Math.max(forgottenUntil(era), clock + 2 * maxClockSkew + 1);
}

/** A record as a claim sees it. No holder continues behind a record of an older era. */
export function recordIn({ era }: Pick<Era, "era">, record: Stored): Stored {
  return record.era === era ? record : { ...record, clean: false, recents: undefined };
}

/**
 * The record that a claim stores in place of `before`. Fences of forgotten windows do not come again: they rise by less than one a ms, so
 * the registry's clock was never behind them, and an era opens behind each time that a clock showed before.
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

/** A holder's checkpoint, unless it used it before the last quarantine: the store may have forgotten the end of that window. */
export function checkpointIn(era: Era, checkpoint: Checkpoint | undefined, record: Stored): Checkpoint | undefined {
  return checkpoint !== undefined && isBefore(era, checkpoint.timestamp, record) ? undefined : checkpoint;
}

/**
 * The usage that a release stores; undefined where the store may have forgotten the end of the holder's window: the claim is from an
 * older era, or the answer of a renewal that raised it to this era was lost.
 */
export function usageIn(era: Era, used: Usage | undefined, record: Stored): Usage | undefined {
  if (used === undefined) return undefined;
  if (record.token !== undefined && (record.era !== era.era || isBefore(era, used.until, record))) return undefined;
  return { ...used, checkpoint: checkpointIn(era, used.checkpoint, record) };
}

/** Whether a holder from before the last quarantine reports a time before its end. */
function isBefore({ opensAt }: Era, timestamp: number, { fence }: Stored): boolean {
  return fence <= opensAt && timestamp < opensAt;
}
