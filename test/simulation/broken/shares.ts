import type { Layout } from "../../../src/id/layout.ts";
import { lending } from "../holders.ts";
import type { Variant } from "../variant.ts";
import { asGranted, type Broken, inSilence, knowingBegin, outside, twice } from "./distort.ts";

/** Counts the emitted IDs, not the blocks handed out: children may still have unused blocks. */
function emittedCounted(): Variant {
  const ends = new Map<number, number>();
  return {
    traits: { lends: true },
    kind: lending,
    made(id: bigint, layout: Layout) {
      const { workerId, timestamp } = layout.decompose(id);
      ends.set(workerId, Math.max(ends.get(workerId) ?? 0, timestamp + layout.tick));
    },
    ...inSilence(
      knowingBegin(asGranted, ({ until }, begin, { workerId }) => ({
        until: Math.max(begin, Math.min(until, ends.get(workerId) ?? 0)),
      })),
    ),
  };
}

export const brokenShares: readonly Broken[] = [
  { name: "emitted blocks counted, not those handed out", variant: emittedCounted, found: [twice, outside] },
];
