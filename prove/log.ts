import { closeSync, openSync, readFileSync, readSync } from "node:fs";

/** A window that a holder was granted, and the times before it that the holder may use. */
export interface Window {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** Lowest Unix ms that the holder may use: `from`, or the begin of the recents after which it continues. */
  readonly knownFrom: number;
}

/** The machine's monotonic clock, ms. It is the same for all processes. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** What a holder wrote down before it made the ID of that number. */
export interface Fact {
  readonly at: number;
  /** When, by the machine's monotonic clock, ms. */
  readonly time?: number | undefined;
  readonly window?: (Window & { readonly generation: number }) | undefined;
  /**
   * The holder made its last ID on the lease. "own will": it gives the lease up by itself. "lost", which follows that: it learned that
   * the lease is lost.
   */
  readonly left?: "own will" | "lost" | undefined;
  /** Why the holder lost the lease. `fence` says which claim that is. */
  readonly reason?: string | undefined;
  readonly fence?: number | undefined;
  /**
   * An answer of the registry: `granted`, `renewed`, `quarantine`, or `lost` with the reason. It does not change the holder's window by
   * itself.
   */
  readonly heard?: string | undefined;
  /** When the holder sent the request, by the same clock. */
  readonly sent?: number | undefined;
  /** Whether the holder had sent the same request before. The registry may have done it then. */
  readonly isRepeat?: boolean | undefined;
  /** The turn that a renewal was to store. */
  readonly turn?: string | undefined;
  /** The holder was copied, or is that copy. `pending`: the turn that original and copy had both drawn, and that had no answer yet. */
  readonly copied?: { readonly number: number; readonly pending?: string | undefined } | undefined;
  /** An error that nothing done to the holder explains. */
  readonly strange?: string | undefined;
  /** Error code -> how often it came so far. */
  readonly errors?: Readonly<Record<string, number>> | undefined;
}

/** The facts of one life. */
export function readFacts(log: string): Fact[] {
  const lines = readFileSync(`${log}.facts`, "utf8").split("\n");
  // A last line without an end was cut off when the holder ended.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Fact);
}

const chunk = 2 ** 16;

/**
 * The IDs of one life in the order in which the holder made them. They come in halves, a chunk at a time: lower, upper, lower, upper, ...
 */
export function* readIds(log: string): Generator<Uint32Array> {
  const file = openSync(`${log}.ids`, "r");
  const bytes = new Uint8Array(chunk);
  try {
    for (let kept = 0; ;) {
      const read = readSync(file, bytes, kept, chunk - kept, null);
      if (read === 0) return;
      const whole = (kept + read) & ~7;
      yield new Uint32Array(bytes.buffer, 0, whole / 4);
      bytes.copyWithin(0, whole, kept + read);
      kept += read - whole;
    }
  } finally {
    closeSync(file);
  }
}
