// Receipts where messages arrive at once or never, and the store is put back once: each request that bears a forgotten receipt is found
// out. (Late requests can do again what was forgotten; then there is nothing to find.)

import { all, and, eq, implies, lt, not, or, symbols } from "./formulas.mjs";
import { under } from "./receipts.mjs";
import {
  now,
  present,
  made,
  line,
  versions,
  isLater,
  isLower,
  isOther,
  isBehind,
  isHolders,
  counts,
  fixed,
} from "./store.mjs";

const { fence, token, until, n, era, granted, receipt, version, holder } = symbols(fixed);
const isForgotten = (s, a) => and(not(eq(a, 0)), not(line(a, s.present)));
const ownReceipt = eq(receipt, now.last(token(receipt)));

export const order = under({
  name: "order",
  about: "the same, where messages arrive at once or never, and the store is put back once",
  clauses: {
    claim: { "the token is new": and(versions(now, "a", not(eq(token("a"), holder))), eq(now.last(holder), 0)) },
    renew: { "arrives at once": ownReceipt },
    "renew in a new era": { "arrives at once": ownReceipt },
    hear: { "arrives at once": and(eq(version, now.newest), eq(version, present)) },
    "put back": { once: not(now.putBack) },
  },
  invariants: (s) => ({
    "a grant has a higher n than any version of its fence before it": versions(
      s,
      "a b",
      implies(and(line("a", "b"), not(eq("a", "b")), granted("b"), eq(fence("a"), fence("b"))), lt(n("a"), n("b"))),
    ),
    "where the store forgot a holder's receipt, it has a lower n for it, or a new era": all(
      "t",
      implies(
        and(isForgotten(s, s.last("t")), eq(era(s.present), era(s.last("t"))), isHolders(s.present, s.last("t"))),
        lt(n(s.present), n(s.last("t"))),
      ),
    ),
    "without a quarantine all is of the first era": implies(eq(era(s.present), 0), versions(s, "a", eq(era("a"), 0))),
  }),
  follows: {},
  steps: {
    renew: {
      "a holder whose receipt was forgotten is not renewed before a quarantine": or(
        line(receipt, present),
        not(eq(era(present), 0)),
      ),
    },
    "refuse as lost": {
      "a holder whose receipt was forgotten begins a quarantine, unless its claim was ended there": or(
        line(receipt, present),
        not(eq(era(present), 0)),
        lt(fence(receipt), fence(present)),
        eq(token(present), 0),
      ),
    },
  },
  wrong: [
    [
      "n is no evidence",
      [
        "renew",
        "no evidence that counts",
        not(
          counts(present, receipt, or(isLater(present, receipt), isLower(present, receipt), isOther(present, receipt))),
        ),
      ],
    ],
    [
      "`until` is compared in the place of n",
      [
        "renew",
        "no evidence that counts",
        not(
          counts(
            present,
            receipt,
            or(
              isLater(present, receipt),
              isLower(present, receipt),
              isOther(present, receipt),
              and(isHolders(present, receipt), lt(until(present), until(receipt))),
            ),
          ),
        ),
      ],
    ],
    [
      "a lower fence is no evidence",
      [
        "refuse as lost",
        "no evidence that counts",
        not(
          counts(
            present,
            receipt,
            or(isLater(present, receipt), isOther(present, receipt), isBehind(present, receipt)),
          ),
        ),
      ],
    ],
    [
      "another token is no evidence",
      [
        "refuse as lost",
        "no evidence that counts",
        not(
          counts(
            present,
            receipt,
            or(isLater(present, receipt), isLower(present, receipt), isBehind(present, receipt)),
          ),
        ),
      ],
    ],
    ["a renewal does not raise n", ["renew", "n", eq(n(made), n(present))]],
  ],
});
