// The store of the proofs about receipts, for one worker ID. It may be put back to any earlier state of itself, any number of times. Two
// stores that answer at one address are a store that is put back to and fro.
//
// Each write makes a new version of the store out of the present one. To put the store back is to make an older version the present one.
// So the versions are a tree, and the store has forgotten each version that is not on the line from the root to the present one. A receipt
// is named by the version that it is the answer to.

import { all, and, either, eq, le, lt, implies, min, not, or, plus, symbols, unchanged } from "./formulas.mjs";

const fields = {
  fence: "Int -> Int",
  token: "Int -> Int", // 0: none
  from: "Int -> Int",
  until: "Int -> Int",
  n: "Int -> Int",
  written: "Int -> Int", // the era in which the record was written
  era: "Int -> Int", // named by the version that began it; 0: the first
  number: "Int -> Int", // of the era; two eras that the store began on two lines may have the same one
  quarantineEnd: "Int -> Int",
  opened: "Int -> Int", // grants are answered, and windows begin, from here on
  evidence: "Int -> Int", // the receipt that began the era
};
export const fixed = {
  ...fields,
  granted: "Int -> Bool", // a claim or a renewal wrote it: it is the receipt in the answer
  bears: "Int -> Int", // the receipt that the request for it bore; 0: none
  before: "Int Int -> Bool",
  // What a step is about:
  receipt: "Int",
  version: "Int",
  holder: "Int",
  time: "Int",
};
const { fence, token, until, n, era, number, quarantineEnd, granted, before } = symbols(fixed);

export const moving = {
  newest: "Int",
  present: "Int",
  closed: "Int -> Bool", // the holder with this token makes no ID any more
  end: "Int -> Int", // and has used no tick from this time on
  last: "Int -> Int", // the newest receipt of the holder with this token; 0: it heard no answer
  // No part of the system:
  heard: "Int -> Bool",
  putBack: "Bool",
};
export const now = symbols(moving);
export const next = symbols(moving, "_");
export const present = now.present;
/** The version that a step writes. */
export const made = next.newest;

/** The second version was made of the first one, or is it. */
export const line = (a, b) => and(le(a, b), before(a, b));
export const isVersion = (s, a) => le(0, a, s.newest);
export const isGrant = (s, a) => and(isVersion(s, a), granted(a));
export const versions = (s, names, body) =>
  all(names, implies(and(...names.split(" ").map((name) => isVersion(s, name))), body));

/** Where the ticks end that its holder can use by this answer. */
export const usable = (s, a) => either(s.closed(token(a)), min(until(a), s.end(token(a))), until(a));

export const isHolders = (a, r) => and(eq(fence(a), fence(r)), eq(token(a), token(r)));
// Four ways in which a version contradicts a receipt, which is evidence then that the store has forgotten something.
export const isLater = (a, r) => or(lt(number(a), number(r)), and(eq(number(a), number(r)), not(eq(era(a), era(r)))));
export const isLower = (a, r) => lt(fence(a), fence(r));
export const isOther = (a, r) => and(eq(fence(a), fence(r)), not(eq(token(a), 0)), not(eq(token(a), token(r))));
export const isBehind = (a, r) =>
  and(eq(fence(a), fence(r)), or(eq(token(a), token(r)), eq(token(a), 0)), lt(n(a), n(r)));
/** What the record shows. */
export const isRecordBehind = (a, r) => or(isLower(a, r), isOther(a, r), isBehind(a, r));
export const contradicts = (a, r) => or(isLater(a, r), isRecordBehind(a, r));
/** All other evidence is covered by the quarantine of the present era. */
export const counts = (a, r, contradiction = contradicts(a, r)) =>
  and(contradiction, or(eq(era(a), era(r)), isLater(a, r), lt(quarantineEnd(a), until(r))));

/** A step that writes nothing to the store. */
export function step(conditions, changes = {}) {
  return { ...conditions, ...changes, ...unchanged(moving, changes) };
}

/** A step that writes a version: these fields are new, the others stay. */
export function write(conditions, written) {
  const field = symbols(fields);
  const kept = Object.keys(fields).filter((name) => !(name in written));
  const changes = { newest: eq(made, plus(now.newest, 1)), present: eq(next.present, made) };
  return step(
    {
      ...conditions,
      "is made of the present one": all("a", eq(before("a", made), or(eq("a", made), line("a", present)))),
      ...Object.fromEntries(kept.map((name) => [name, eq(field[name](made), field[name](present))])),
      granted: not(granted(made)),
      ...written,
    },
    changes,
  );
}
