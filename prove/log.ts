import { closeSync, openSync, readFileSync, readSync } from "node:fs";

/** A window that a holder was granted, and what it may use before it. */
export interface Window {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** Lowest Unix ms that it may use: `from`, or where the recents begin that it continues. */
  readonly knownFrom: number;
}

/** What a holder wrote down before it made the ID of that number. */
export interface Fact {
  readonly at: number;
  readonly window?: (Window & { readonly generation: number }) | undefined;
  /** It made the last ID on the lease: it gives it up by itself, or was told that it is somebody else's. */
  readonly left?: "own will" | "lost" | undefined;
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
