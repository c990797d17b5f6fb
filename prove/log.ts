import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import type { Asked } from "./sequential.ts";

/** A window that a holder was granted, and what it may use before it. */
export interface Window {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** Lowest Unix ms that it may use: `from`, or where the recents begin that it continues. */
  readonly knownFrom: number;
}

/** The machine's monotonic clock, ms: the same for all processes. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** What a holder wrote down before it made the ID of that number. */
export interface Fact {
  readonly at: number;
  /** When, by the machine's monotonic clock, ms. */
  readonly time?: number | undefined;
  readonly window?: (Window & { readonly generation: number }) | undefined;
  /** It made the last ID on the lease: it gives it up by itself, or (which follows that) it was told that the lease is lost. */
  readonly left?: "own will" | "lost" | undefined;
  /** Why it lost the lease, and of which claim that is. */
  readonly reason?: string | undefined;
  readonly fence?: number | undefined;
  /** An answer of the registry, of which it goes on as it stood before: `granted`, `renewed`, `quarantine`, or `lost` and why. */
  readonly heard?: string | undefined;
  /** When it asked for that, by the same clock. */
  readonly sent?: number | undefined;
  /** It had asked for the same before: the registry may have done it then. */
  readonly isRepeat?: boolean | undefined;
  /** The turn that a renewal was to pass on to. */
  readonly turn?: string | undefined;
  /** It was copied, or is that copy; `pending`: the turn that both had drawn, and had no answer to. */
  readonly copied?: { readonly number: number; readonly pending?: string | undefined } | undefined;
  /** It calls its registry; which call of its process that is. */
  readonly call?: (Pick<Asked, "method" | "request"> & { readonly number: number }) | undefined;
  /** Its registry answered, or threw an error of this code. */
  readonly answered?:
    | { readonly number: number; readonly answer?: Asked["answer"]; readonly error?: string | undefined }
    | undefined;
  /** An error of which nothing that was done to it can be the reason. */
  readonly strange?: string | undefined;
  /** Error code -> how often, so far. */
  readonly errors?: Readonly<Record<string, number>> | undefined;
}

/** The facts of one life. */
export function readFacts(log: string): Fact[] {
  const lines = readFileSync(`${log}.facts`, "utf8").split("\n");
  // A line that has no end was cut off with its holder.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Fact);
}

const chunk = 2 ** 16;

/** The IDs of one life in the order in which it made them, by their halves, a chunk at a time: lower, upper, lower, upper, ... */
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
