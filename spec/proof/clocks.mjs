// Receipts where clocks are within the skew: how long a quarantine has to be, and what it covers.

import { all, and, eq, implies, le, lt, max, min, minus, not, or, plus, symbols } from "./formulas.mjs";
import { under } from "./receipts.mjs";
import {
  now,
  present,
  made,
  line,
  isGrant,
  versions,
  usable,
  isHolders,
  isLater,
  contradicts,
  step,
  fixed as storeFixed,
} from "./store.mjs";

const { fence, token, from, until, era, quarantineEnd, opened, granted, receipt, time } = symbols(storeFixed);
const fixed = { skew: "Int", maxWindow: "Int" };
const { skew, maxWindow } = symbols(fixed);
const moving = {
  latest: "Int", // the most that a clock of the fleet has shown
  // No part of the system:
  quarantined: "Bool", // since the store was put back last
};
const clockNow = symbols(moving);
const clockNext = symbols(moving, "_");

/** The last end that a registry grants. */
const reach = (s) => plus(s.latest, skew, maxWindow);
const ends = (last) => ({ "ends a window's length later": le(until(made), last) });
/** A window that begins at the end of a quarantine is as long as others. */
const begins = {
  "a clock shows the time": le(time, clockNext.latest),
  ...ends(max(reach(clockNext), plus(opened(present), maxWindow))),
};
const readsClock = { "the clock is behind by the skew": le(minus(clockNext.latest, skew), time, clockNext.latest) };

export const clocks = under({
  name: "clocks",
  about: "the same, where a clock shows at most maxClockSkew less than any clock of the fleet showed before",
  fixed,
  moving,
  axioms: [le(0, skew), le(0, maxWindow), lt(0, plus(skew, maxWindow))],
  everywhere: {
    "clocks go on": le(clockNow.latest, clockNext.latest),
    quarantined: eq(clockNext.quarantined, clockNow.quarantined),
  },
  actions: {
    // It is answered QUARANTINE, though the record is another claim's, and uses the rest of its window.
    "go on in a quarantine": step({
      "bears a receipt": isGrant(now, receipt),
      "is not the holder's": not(isHolders(present, receipt)),
      "the record has passed": le(until(present), minus(time, skew)),
    }),
  },
  clauses: {
    "go on in a quarantine": readsClock,
    claim: {
      ...begins,
      "claims are fewer than milliseconds": le(fence(made), plus(max(clockNext.latest, opened(present)), 1)),
    },
    renew: ends(max(reach(clockNext), max(until(present), until(receipt)))),
    "renew in a new era": begins,
    "begin a quarantine": {
      ...readsClock,
      "lasts for a window": le(plus(time, maxWindow, skew, skew), opened(made)),
      quarantined: clockNext.quarantined,
    },
    "begin a quarantine by another worker ID's receipt": {
      ...readsClock,
      "lasts for a window": le(plus(time, maxWindow, skew, skew), opened(made)),
      quarantined: clockNext.quarantined,
    },
    "end the quarantine": {
      ...readsClock,
      "not before what a stopped holder used": le(min(plus(time, skew, 1), opened(present)), opened(made)),
      "an operator knows that the earlier holders stopped": versions(
        now,
        "a",
        implies(and(granted("a"), lt("a", era(present))), or(now.closed(token("a")), le(until("a"), opened(made)))),
      ),
    },
    close: { "used what a clock has shown": le(time, plus(clockNext.latest, 1)) },
    "put back": { quarantined: not(clockNext.quarantined) },
  },
  begin: [
    le(until(0), reach(clockNow)),
    le(0, clockNow.latest),
    not(clockNow.quarantined),
    all("t", not(now.closed("t"))),
  ],
  invariants: (s) => ({
    "no window ends later than a window's length after the clocks": versions(s, "a", le(until("a"), reach(s))),
    "no fence is higher than a clock has shown": versions(s, "a", le(fence("a"), plus(s.latest, 1))),
    "a closed holder used what a clock has shown": all("t", implies(s.closed("t"), le(s.end("t"), plus(s.latest, 1)))),
    "windows that were granted before an era, forgotten or not, end before it opens": versions(
      s,
      "a b",
      implies(and(granted("a"), lt("a", era("b"))), le(usable(s, "a"), opened("b"))),
    ),
    "an era's quarantine covers windows that were granted before it, forgotten or not": versions(
      s,
      "a b",
      implies(and(granted("a"), lt("a", era("b"))), le(until("a"), quarantineEnd("b"))),
    ),
    "an era opens behind fences that were granted before it, forgotten or not": versions(
      s,
      "a b",
      implies(and(granted("a"), lt("a", era("b"))), le(fence("a"), opened("b"))),
    ),
    "after its quarantine, a store has all that was granted since": implies(
      s.quarantined,
      versions(s, "a", implies(le(era(s.present), "a"), line("a", s.present))),
    ),
  }),
  follows: {
    "no window of an era overlaps with one granted before it, forgotten or not": versions(
      now,
      "a b",
      implies(and(granted("a"), granted("b"), lt("a", era("b"))), le(usable(now, "a"), from("b"))),
    ),
  },
  steps: {
    claim: {
      "a claim in a new era has a fence above all that were granted before it, forgotten or not": versions(
        now,
        "a",
        implies(and(granted("a"), lt("a", era(present))), lt(fence("a"), fence(made))),
      ),
    },
    "go on in a quarantine": {
      "a holder that goes on in a quarantine uses no tick that another claim on this line can have used": versions(
        now,
        "a",
        implies(
          and(granted("a"), line("a", present)),
          or(le(usable(now, "a"), minus(clockNext.latest, skew)), le(until(receipt), from("a"))),
        ),
      ),
    },
    "begin a quarantine": {
      "each time that it is put back, a store begins one quarantine at most, and one for each later era that it forgot":
        or(not(clockNow.quarantined), isLater(present, receipt)),
    },
  },
  wrong: [
    [
      "a quarantine is one skew too short",
      ["begin a quarantine", "lasts for a window", le(plus(time, maxWindow, skew), opened(made))],
    ],
    [
      "a quarantine is shorter than a window",
      ["begin a quarantine", "lasts for a window", le(plus(time, skew, skew), opened(made))],
    ],
    [
      "covered evidence begins a quarantine",
      ["begin a quarantine", "evidence that counts", contradicts(present, receipt)],
    ],
    [
      "a claim's fence is not raised past the quarantine's end",
      ["claim", "fence", eq(fence(made), plus(fence(present), 1))],
    ],
    [
      "an operator's end is at the clock",
      ["end the quarantine", "not before what a stopped holder used", le(min(time, opened(present)), opened(made))],
    ],
    [
      "an operator's end lowers `quarantineEnd`",
      ["end the quarantine", "quarantineEnd", eq(quarantineEnd(made), opened(made))],
    ],
    ["a claim is granted in a quarantine", ["claim", "not in quarantine", "true"]],
    ["a renewal of an older era is granted in a quarantine", ["renew in a new era", "not in quarantine", "true"]],
    ["a holder goes on beside another claim", ["go on in a quarantine", "the record has passed", "true"]],
    [
      "a holder goes on where the last claim begins behind its window",
      [
        "go on in a quarantine",
        "the record has passed",
        or(le(until(present), minus(time, skew)), le(until(receipt), from(present))),
      ],
    ],
    [
      "clocks are two skews apart",
      [
        "begin a quarantine",
        "the clock is behind by the skew",
        le(minus(clockNext.latest, plus(skew, skew)), time, clockNext.latest),
      ],
    ],
  ],
});
