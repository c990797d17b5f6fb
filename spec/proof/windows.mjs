// The window rule of src/rule/window.ts for one worker ID: any number of claims, holders, ticks and messages, which may be late, lost,
// repeated or overtaken. A forced release changes no window, so it is no step here.

import { all, and, either, eq, implies, le, lt, not, or, plus, symbols, unchanged } from "./formulas.mjs";

const moving = {
  fence: "Int", // of the last claim; 0: there was none
  until: "Int -> Int", // the stored end of the window of a claim; a claim is named by its fence
  from: "Int -> Int",
  closed: "Int -> Bool", // its holder uses no tick any more
  known: "Int -> Int", // the end that its holder goes by
  answered: "Int Int -> Bool", // an answer with this end was sent, and may arrive at any time, any number of times
  used: "Int Int -> Bool", // its holder used this tick
  givenBack: "Int Int -> Bool", // a give-back with this end was sent, and may arrive likewise
};
const now = symbols(moving);
const next = symbols(moving, "_");
// What a step is about.
const fixed = { claim: "Int", time: "Int", end: "Int" };
const { claim, time, end } = symbols(fixed);

/** A step: what must hold for it, and what it changes. */
function step(conditions, changes) {
  return { ...conditions, ...changes, ...unchanged(moving, changes) };
}

const set = (name, claim, value) => ({
  [name]: all("g", eq(next[name]("g"), either(eq("g", claim), value, now[name]("g")))),
});
const add = (name, claim, value) => ({
  [name]: all("g t", eq(next[name]("g", "t"), or(now[name]("g", "t"), and(eq("g", claim), eq("t", value))))),
});
const isClaim = (s, claim) => le(1, claim, s.fence);

const actions = {
  claim: step(
    {
      "begins behind the window before": implies(le(1, now.fence), le(now.until(now.fence), time)),
      "has a length": le(time, end),
    },
    {
      fence: eq(next.fence, plus(now.fence, 1)),
      ...set("from", next.fence, time),
      ...set("until", next.fence, end),
      ...set("closed", next.fence, "false"),
      ...set("known", next.fence, time),
      ...add("answered", next.fence, end),
    },
  ),
  renew: step(
    {
      "the claim is the last one": and(isClaim(now, claim), eq(claim, now.fence)),
      "the end never sinks": le(now.until(claim), end),
    },
    { ...set("until", claim, end), ...add("answered", claim, end) },
  ),
  "hear an answer": step({ "it was sent": now.answered(claim, end) }, set("known", claim, end)),
  "use a tick": step(
    {
      "not closed": and(isClaim(now, claim), not(now.closed(claim))),
      "behind the begin": le(now.from(claim), time),
      "before the known end": lt(time, now.known(claim)),
    },
    add("used", claim, time),
  ),
  close: step(
    {
      "behind each used tick": all("t", implies(now.used(claim, "t"), lt("t", end))),
      "not before the begin": and(isClaim(now, claim), le(now.from(claim), end)),
    },
    { ...set("closed", claim, "true"), ...add("givenBack", claim, end) },
  ),
  "give back": step(
    { "it was sent": now.givenBack(claim, end), "the claim is the last one": eq(claim, now.fence) },
    set("until", claim, end),
  ),
};

const invariants = (s) => ({
  "fences count up from 0": le(0, s.fence),
  "a window does not end before it begins": all("a", implies(isClaim(s, "a"), le(s.from("a"), s.until("a")))),
  "a window begins behind those of all claims before it": all(
    "a b",
    implies(and(isClaim(s, "a"), isClaim(s, "b"), lt("a", "b")), le(s.until("a"), s.from("b"))),
  ),
  "an answer names no time behind the stored end, or its holder closed": all(
    "a u",
    implies(s.answered("a", "u"), and(isClaim(s, "a"), or(le("u", s.until("a")), s.closed("a")))),
  ),
  "a holder knows of no time behind the stored end, or it closed": all(
    "a",
    implies(isClaim(s, "a"), or(le(s.known("a"), s.until("a")), s.closed("a"))),
  ),
  "a tick is used inside the stored window": all(
    "a t",
    implies(s.used("a", "t"), and(isClaim(s, "a"), le(s.from("a"), "t"), lt("t", s.until("a")))),
  ),
  "a give-back comes from a closed holder and names an end behind each tick that it used": all(
    "a u",
    implies(
      s.givenBack("a", "u"),
      and(isClaim(s, "a"), s.closed("a"), le(s.from("a"), "u"), all("t", implies(s.used("a", "t"), lt("t", "u")))),
    ),
  ),
});

/** [what is wrong, [the step, its condition or change, what stands there instead] …] */
const wrong = [
  [
    "a claim begins a tick before the last window's end",
    ["claim", "begins behind the window before", le(plus(now.until(now.fence), -1), time)],
  ],
  ["a renewal of any fence counts", ["renew", "the claim is the last one", isClaim(now, claim)]],
  ["a renewal lowers the end", ["renew", "the end never sinks", "true"]],
  ["the end of a window belongs to it", ["use a tick", "before the known end", le(time, now.known(claim))]],
  ["a closed holder uses a tick", ["use a tick", "not closed", isClaim(now, claim)]],
  ["a tick before the window is used", ["use a tick", "behind the begin", "true"]],
  ["a give-back of any fence counts", ["give back", "the claim is the last one", isClaim(now, claim)]],
  [
    "a give-back names the last used tick as the end",
    ["close", "behind each used tick", all("t", implies(now.used(claim, "t"), le("t", end)))],
  ],
  ["a holder gives back before it closes", ["close", "closed", all("g", eq(next.closed("g"), now.closed("g")))]],
];

export const windows = {
  name: "windows",
  about: "one line of windows, in a store that forgets nothing",
  fixed,
  moving,
  axioms: [],
  given: () => [],
  actions,
  begin: [eq(now.fence, 0), all("a u", not(or(now.answered("a", "u"), now.used("a", "u"), now.givenBack("a", "u"))))],
  invariants,
  follows: {
    "no tick is used by two claims": all("a b t", implies(and(now.used("a", "t"), now.used("b", "t")), eq("a", "b"))),
  },
  steps: {},
  wrong,
};
