import type { Checkpoint, NamespaceLimits, Usage } from "./registry.ts";
import type { Stored } from "./window.ts";

/*
 * What the rule says of a store that may have forgotten what it acknowledged: one that lost its last writes, was restored from an
 * older copy, or is empty. From the moment that this is noticed it is in quarantine, and nothing is granted or renewed until every
 * window has passed that may ever have been granted. A new era begins with it: of what an older one wrote, only the claims are
 * still believed. How a store notices is its own matter. (Redis says the same in `sql/redis`.)
 */

/** A span of a store's life in which it forgot nothing. */
export interface Era {
  /** Tells it apart from all others; rises. */
  readonly era: number;
  /** The end of the last quarantine, Unix ms: no window of this era begins before it. 0 where there was none. */
  readonly quarantineEnd: number;
}

/** The era that begins now. Where it is not known what was there, `limits` are the defaults. */
export function nextEra({ era, quarantineEnd }: Era, clock: number, limits: NamespaceLimits): Era {
  const { maxWindow, maxClockSkew } = limits;
  return {
    // No two eras bear the same number, even if the last one was forgotten.
    era: Math.max(clock, era + 1),
    quarantineEnd: Math.max(clock + maxWindow + 2 * maxClockSkew, quarantineEnd),
  };
}

/** A record as claims see it that was written in the era of that number: nobody continues behind what an older one says. */
export function recordIn({ era }: Era, record: Stored, written: number): Stored {
  return written === era ? record : { ...record, clean: false, recents: undefined };
}

/** What a claim stores in this era. `before`: the record that it replaces. Fences of windows that were forgotten do not come again. */
export function claimIn({ quarantineEnd }: Era, record: Stored, before: Stored | undefined): Stored {
  const from = Math.max(record.from, quarantineEnd);
  const fence = Math.max(before?.fence ?? 0, quarantineEnd) + 1;
  return { ...record, fence, from, knownFrom: record.recents?.from ?? from };
}

/** What a renewal stores. A holder that was granted its window in an older era may use no time before the begin of this one. */
export function renewalIn({ era, quarantineEnd }: Era, record: Stored, written: number): Stored {
  if (written === era) return record;
  const from = Math.max(record.from, quarantineEnd);
  return { ...record, from, knownFrom: from };
}

/**
 * What a holder says of the time before the last quarantine, which it has come through, is left out: that window is closed, and how
 * far it reached may have been forgotten here.
 */
export function checkpointIn(era: Era, checkpoint: Checkpoint | undefined, record: Stored): Checkpoint | undefined {
  return checkpoint !== undefined && isBefore(era, checkpoint.timestamp, record) ? undefined : checkpoint;
}

/**
 * What a holder gives back, as far as it is known here. What was granted in an older era is not what is stored, and how far it reached
 * may have been forgotten; nor is it where a renewal raised the window to this era, and its holder never heard.
 */
export function usageIn(era: Era, used: Usage | undefined, record: Stored, written: number): Usage | undefined {
  if (used === undefined) return undefined;
  if (record.token !== undefined && (written !== era.era || isBefore(era, used.until, record))) return undefined;
  return { ...used, checkpoint: checkpointIn(era, used.checkpoint, record) };
}

/** Whether a holder that has come through the last quarantine tells of a time before its end. */
function isBefore({ quarantineEnd }: Era, timestamp: number, { fence }: Stored): boolean {
  return fence <= quarantineEnd && timestamp < quarantineEnd;
}
