import type { Checkpoint, Usage } from "./registry.ts";
import type { NamespaceLimits } from "./limits.ts";
import type { Stored } from "./window.ts";

/*
 * The rule for a store that may have forgotten acknowledged writes: it lost the last ones, was restored from a copy, or is empty.
 * Once it detects this in its own way, it is in quarantine: it grants and renews nothing until every window has passed that it may
 * have granted. With that begins a new era, in which only the claims of older records count. (Redis repeats this in `sql/redis`.)
 */

/** A part of a store's life in which it forgot nothing. */
export interface Era {
  /** Its number; rises. */
  readonly era: number;
  /** The end of the last quarantine, Unix ms: no window of this era begins before it. 0 where there was none. */
  readonly quarantineEnd: number;
}

/** The era that begins now. `limits`: the assumed ones where the stored ones are unknown. */
export function nextEra({ era, quarantineEnd }: Era, clock: number, limits: NamespaceLimits): Era {
  const { maxWindow, maxClockSkew } = limits;
  return {
    // No two eras have the same number, even if the store forgot the last one.
    era: Math.max(clock, era + 1),
    quarantineEnd: Math.max(clock + maxWindow + 2 * maxClockSkew, quarantineEnd),
  };
}

/** A record as a claim sees it. `written`: the era of the record. No holder continues behind a record of an older era. */
export function recordIn({ era }: Era, record: Stored, written: number): Stored {
  return written === era ? record : { ...record, clean: false, recents: undefined };
}

/** The record that a claim stores in place of `before`. Fences of forgotten windows do not come again. */
export function claimIn({ quarantineEnd }: Era, record: Stored, before: Stored | undefined): Stored {
  const from = Math.max(record.from, quarantineEnd);
  const fence = Math.max(before?.fence ?? 0, quarantineEnd) + 1;
  return { ...record, fence, from, knownFrom: record.recents?.from ?? from };
}

/** The record that a renewal stores. A holder from an older era may use no time before the begin of this one. */
export function renewalIn({ era, quarantineEnd }: Era, record: Stored, written: number): Stored {
  if (written === era) return record;
  const from = Math.max(record.from, quarantineEnd);
  return { ...record, from, knownFrom: from };
}

/** A holder's checkpoint, unless it used it before the last quarantine: the store may have forgotten the end of that window. */
export function checkpointIn(era: Era, checkpoint: Checkpoint | undefined, record: Stored): Checkpoint | undefined {
  return checkpoint !== undefined && isBefore(era, checkpoint.timestamp, record) ? undefined : checkpoint;
}

/**
 * The usage that a release stores; undefined where the store may have forgotten the end of the holder's window: the claim is from an
 * older era, or the answer of a renewal that raised it to this era was lost.
 */
export function usageIn(era: Era, used: Usage | undefined, record: Stored, written: number): Usage | undefined {
  if (used === undefined) return undefined;
  if (record.token !== undefined && (written !== era.era || isBefore(era, used.until, record))) return undefined;
  return { ...used, checkpoint: checkpointIn(era, used.checkpoint, record) };
}

/** Whether a holder from before the last quarantine reports a time before its end. */
function isBefore({ quarantineEnd }: Era, timestamp: number, { fence }: Stored): boolean {
  return fence <= quarantineEnd && timestamp < quarantineEnd;
}
