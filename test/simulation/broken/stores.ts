import type { Variant } from "../variant.ts";
import { eras, type Eras } from "../store.ts";
import { type Broken, overlap, twice } from "./distort.ts";

/*
 * Stores that forget, and break in one way each what the rule says of that.
 */

function forgetting(broken: Partial<Eras>): Variant {
  return { traits: { forgets: true, lends: false }, eras: { ...eras, ...broken } };
}

const unnoticed = forgetting({ isSame: () => true });

/** Waits as long as most windows are, as if there were no longer ones, and no clocks that differ. */
const tooShort = forgetting({
  nextEra: (era, clock) => eras.nextEra(era, clock, { maxWindow: 5000, maxClockSkew: 0 }),
});

/** Lets holders go on where they were. */
const renewedAsBefore = forgetting({ renewalIn: (_, record) => record });

const fencesAnew = forgetting({
  claimIn: (era, record, before) => ({ ...eras.claimIn(era, record, before), fence: (before?.fence ?? 0) + 1 }),
});

/** Begins a quarantine at each look. */
const forEver = forgetting({ isSame: () => false });

export const brokenStores: readonly Broken[] = [
  { name: "forgets, and goes on", variant: () => unnoticed, found: [twice, overlap, /^Fence/] },
  { name: "a quarantine that is too short", variant: () => tooShort, found: [twice, overlap] },
  { name: "renewed after a quarantine as if nothing had been", variant: () => renewedAsBefore, found: [overlap] },
  { name: "fences that begin anew", variant: () => fencesAnew, found: [/^Fence/] },
  { name: "a quarantine without end", variant: () => forEver, found: [/cannot be had/] },
];
