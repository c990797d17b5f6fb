import type { Variant } from "../variant.ts";
import { rules, type Rules } from "../store.ts";
import { type Broken, overlap, twice } from "./distort.ts";

/*
 * Stores in which an operator drops the namespace, and holders make it again. Each breaks one part of the rule for the note that
 * stays.
 */

function dropping(broken: Partial<Rules>): Variant {
  return {
    traits: { forgets: true, goesBack: false, drops: true, lends: false, copies: false },
    rules: { ...rules, ...broken },
  };
}

/** Keeps no time: windows begin again before the registry's clock, by the tolerated difference. */
const notesNothing = dropping({
  noteOfDrop: (state, isUsed, mark) => ({ ...rules.noteOfDrop(state, isUsed, mark), quarantineEnd: 0, opensAt: 0 }),
});

/** Drops a namespace with open windows, and lets the next one begin at once. */
const takesTheLiving = dropping({
  isObstacle: () => false,
  noteOfDrop: (state, isUsed, mark) => {
    const { clock } = state;
    return { ...rules.noteOfDrop(state, isUsed, mark), quarantineEnd: clock, opensAt: clock };
  },
});

/** Keeps the era of the dropped namespace, so that the evidence of its holders counts once more. */
const keepsTheEra = dropping({
  noteOfDrop: (state, isUsed, mark) => ({ ...rules.noteOfDrop(state, isUsed, mark), era: state.era }),
});

export const brokenDrops: readonly Broken[] = [
  { name: "a dropped namespace of which no time is noted", variant: () => notesNothing, found: [twice, overlap] },
  { name: "a namespace that is dropped with open windows", variant: () => takesTheLiving, found: [twice, overlap] },
  {
    name: "a dropped namespace whose era goes on",
    variant: () => keepsTheEra,
    found: [/^A store that forgot nothing/],
  },
];
