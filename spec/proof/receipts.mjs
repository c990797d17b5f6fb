// Receipts: how a store that was put back is found out, by any number of holders, whose requests and answers may be late, lost, repeated
// or overtaken. Of clocks nothing is assumed here.

import { all, and, either, eq, implies, le, lt, max, not, or, plus, symbols } from "./formulas.mjs";
import {
  fixed,
  moving,
  now,
  next,
  present,
  made,
  line,
  isVersion,
  isGrant,
  versions,
  usable,
  isHolders,
  isLater,
  isRecordBehind,
  contradicts,
  counts,
  step,
  write,
} from "./store.mjs";

const {
  fence,
  token,
  from,
  until,
  n,
  written,
  era,
  number,
  quarantineEnd,
  opened,
  evidence,
  granted,
  bears,
  receipt,
  version,
  holder,
  time,
} = symbols(fixed);
const grants = { granted: granted(made), written: eq(written(made), era(present)) };
const isReceipt = isGrant(now, receipt);
const isOpen = le(opened(present), time);

const actions = {
  claim: write(
    { "not in quarantine": isOpen },
    {
      ...grants,
      fence: eq(fence(made), plus(max(fence(present), opened(present)), 1)),
      token: and(eq(token(made), holder), not(eq(holder, 0))),
      from: le(max(until(present), opened(present)), from(made)),
      until: le(from(made), until(made)),
      n: eq(n(made), 0),
      bears: eq(bears(made), 0),
    },
  ),
  renew: write(
    {
      "bears a receipt": isReceipt,
      "is the holder's": isHolders(present, receipt),
      "of this era": eq(written(present), era(present)),
      "no evidence that counts": not(counts(present, receipt)),
    },
    {
      ...grants,
      until: le(until(present), until(made)),
      "reaches the receipt's end": le(until(receipt), until(made)),
      n: eq(n(made), plus(max(n(present), n(receipt)), 1)),
      bears: eq(bears(made), receipt),
    },
  ),
  "renew in a new era": write(
    {
      "bears a receipt": isReceipt,
      "not in quarantine": isOpen,
      "is the holder's": isHolders(present, receipt),
      "of an older era": not(eq(written(present), era(present))),
      "no evidence that counts": not(counts(present, receipt)),
    },
    {
      ...grants,
      from: eq(from(made), max(from(present), opened(present))),
      until: le(max(until(present), from(made)), until(made)),
      "reaches the receipt's end": le(until(receipt), until(made)),
      n: eq(n(made), plus(max(n(present), n(receipt)), 1)),
      bears: eq(bears(made), receipt),
    },
  ),
  // By a renewal, a give-back or a recall: each bears a receipt.
  "begin a quarantine": write(
    { "bears a receipt": isReceipt, "evidence that counts": counts(present, receipt) },
    {
      era: eq(era(made), made),
      number: lt(max(number(present), number(receipt)), number(made)),
      quarantineEnd: le(max(quarantineEnd(present), opened(made)), quarantineEnd(made)),
      // Where an operator ended the last quarantine, not behind the end of that one.
      opened: le(max(opened(present), until(receipt)), opened(made)),
      evidence: eq(evidence(made), receipt),
    },
  ),
  // What is proven of the step above, for that worker ID, is given here.
  "begin a quarantine by another worker ID's receipt": write(
    { "was put back": now.putBack },
    {
      era: eq(era(made), made),
      number: lt(number(present), number(made)),
      quarantineEnd: le(max(quarantineEnd(present), opened(made)), quarantineEnd(made)),
      opened: le(opened(present), opened(made)),
      evidence: eq(evidence(made), 0),
    },
  ),
  "write another worker ID's record": write({}, {}),
  "end the quarantine": write({}, { opened: le(opened(made), opened(present)) }),
  "refuse as lost": step({
    "bears a receipt": isReceipt,
    "no evidence that counts": not(counts(present, receipt)),
    "is not the holder's": not(isHolders(present, receipt)),
  }),
  "close the window of a claim beside the holder's": write(
    {
      "bears a receipt": isReceipt,
      "no evidence": not(contradicts(present, receipt)),
      "has no holder": eq(token(present), 0),
    },
    {
      until: eq(until(made), max(until(present), until(receipt))),
    },
  ),
  close: step(
    { "not closed": not(now.closed(holder)) },
    {
      closed: all("t", eq(next.closed("t"), or(now.closed("t"), eq("t", holder)))),
      end: all("t", eq(next.end("t"), either(eq("t", holder), time, now.end("t")))),
    },
  ),
  "give back clean": write(
    {
      "bears a receipt": isReceipt,
      "is the holder's": isHolders(present, receipt),
      "is closed": now.closed(token(receipt)),
    },
    {
      token: eq(token(made), 0),
      until: and(eq(until(made), now.end(token(receipt))), le(from(present), until(made), until(present))),
    },
  ),
  // Or a give-back that is not clean.
  "release by force": write({}, { token: eq(token(made), 0) }),
  hear: step(
    {
      "was granted": isGrant(now, version),
      "answers the request that bore its receipt": eq(bears(version), now.last(token(version))),
    },
    {
      last: all("t", eq(next.last("t"), either(eq("t", token(version)), version, now.last("t")))),
      heard: all("a", eq(next.heard("a"), or(now.heard("a"), eq("a", version)))),
    },
  ),
  "put back": step(
    { "to an earlier version": isVersion(now, next.present) },
    { present: "true", putBack: next.putBack },
  ),
};

const invariants = (s) => ({
  "versions are numbered": and(
    le(0, s.present, s.newest),
    not(granted(0)),
    eq(token(0), 0),
    versions(s, "a", line("a", "a")),
  ),
  "a window does not end before it begins": versions(s, "a", le(from("a"), until("a"))),
  "on one line, fences and quarantines never sink": versions(
    s,
    "a b",
    implies(
      line("a", "b"),
      and(le(fence("a"), fence("b")), le(quarantineEnd("a"), quarantineEnd("b")), le(era("a"), era("b"))),
    ),
  ),
  "on one line, an era has one number, and later eras have higher ones": versions(
    s,
    "a b",
    implies(line("a", "b"), either(eq(era("a"), era("b")), eq(number("a"), number("b")), lt(number("a"), number("b")))),
  ),
  "on one line, a fence has one token or none any more, and n and `from` never sink": versions(
    s,
    "a b",
    implies(
      and(line("a", "b"), eq(fence("a"), fence("b"))),
      and(or(eq(token("b"), token("a")), eq(token("b"), 0)), le(n("a"), n("b")), le(from("a"), from("b"))),
    ),
  ),
  "a grant is of its era, by a token": versions(
    s,
    "a",
    and(
      implies(
        granted("a"),
        and(not(eq(token("a"), 0)), eq(written("a"), era("a")), le(0, bears("a")), lt(bears("a"), "a")),
      ),
      le(0, written("a"), era("a")),
      le(era("a"), "a"),
    ),
  ),
  "no window that the store remembers ends behind the record's end, as far as its holder may use it": versions(
    s,
    "a b",
    implies(and(granted("a"), line("a", "b")), le(usable(s, "a"), until("b"))),
  ),
  "windows of two claims that the store remembers do not overlap": versions(
    s,
    "a b",
    implies(and(granted("a"), line("a", "b"), lt(fence("a"), fence("b"))), le(usable(s, "a"), from("b"))),
  ),
  "a window of an era begins behind its quarantine": versions(
    s,
    "a",
    implies(eq(written("a"), era("a")), le(opened("a"), from("a"))),
  ),
  "a quarantine ends behind the window of the holder that began it": versions(
    s,
    "a",
    implies(not(eq(evidence("a"), 0)), le(until(evidence("a")), quarantineEnd("a"))),
  ),
  "a renewal reaches the end of the receipt that it bears": versions(
    s,
    "a",
    implies(and(granted("a"), not(eq(bears("a"), 0))), and(granted(bears("a")), le(until(bears("a")), until("a")))),
  ),
  "no window of a holder ends behind its newest receipt, forgotten or not": all(
    "t a",
    and(
      implies(not(eq(s.last("t"), 0)), and(isGrant(s, s.last("t")), eq(token(s.last("t")), "t"))),
      implies(
        and(s.heard("a"), eq(token("a"), "t")),
        and(isGrant(s, "a"), not(eq(s.last("t"), 0)), le(until("a"), until(s.last("t")))),
      ),
    ),
  ),
  "a store that was never put back has forgotten nothing and is in its first era": implies(
    not(s.putBack),
    and(eq(s.present, s.newest), versions(s, "a b", and(implies(le("a", "b"), line("a", "b")), eq(era("a"), 0)))),
  ),
});

const isNoLaterEra = {
  "a receipt of a later era than the store's begins a quarantine, whatever the record says": not(
    isLater(present, receipt),
  ),
};
const isRefused = {
  ...isNoLaterEra,
  "a holder whose receipt is evidence that counts is not renewed": not(counts(present, receipt)),
};

export const receipts = {
  name: "receipts",
  about: "a store that is put back any number of times; clocks may show anything",
  fixed,
  moving,
  axioms: [],
  given: () => [],
  actions,
  begin: [
    and(eq(now.newest, 0), eq(present, 0), line(0, 0), not(now.putBack)),
    and(
      eq(token(0), 0),
      eq(fence(0), 0),
      eq(era(0), 0),
      eq(written(0), 0),
      eq(evidence(0), 0),
      not(granted(0)),
      le(opened(0), from(0)),
      le(from(0), until(0)),
    ),
    all("a", and(eq(now.last("a"), 0), not(now.heard("a")))),
  ],
  invariants,
  follows: {
    "a claim that comes after the newest receipt of a holder has no tick that this holder ever had, forgotten or not":
      versions(
        now,
        "a b",
        implies(
          and(
            now.heard("a"),
            granted("b"),
            line(now.last(token("a")), "b"),
            lt(fence(now.last(token("a"))), fence("b")),
          ),
          le(usable(now, "a"), from("b")),
        ),
      ),
  },
  steps: {
    "renew in a new era": isRefused,
    "begin a quarantine": {
      "only a receipt that the store has forgotten begins a quarantine": not(line(receipt, present)),
      "a store that was never put back begins no quarantine": now.putBack,
      "the era of a receipt that begins a quarantine is no later one after it": not(isLater(made, receipt)),
    },
    "refuse as lost": isNoLaterEra,
    renew: {
      ...isRefused,
      "a renewal leaves no window of its holder behind the record's end": implies(
        eq(receipt, now.last(token(receipt))),
        all("a", implies(and(now.heard("a"), eq(token("a"), token(made))), le(until("a"), until(made)))),
      ),
    },
  },
  wrong: [
    [
      "a record without a token is evidence",
      [
        "begin a quarantine",
        "evidence that counts",
        counts(
          present,
          receipt,
          or(contradicts(present, receipt), and(eq(fence(present), fence(receipt)), eq(token(present), 0))),
        ),
      ],
    ],
    [
      "evidence is acted on after the record that it contradicts was replaced",
      ["begin a quarantine", "evidence that counts", and(line(version, present), counts(version, receipt))],
    ],
    [
      "a higher n is evidence",
      [
        "begin a quarantine",
        "evidence that counts",
        counts(
          present,
          receipt,
          or(contradicts(present, receipt), and(isHolders(present, receipt), lt(n(receipt), n(present)))),
        ),
      ],
    ],
    ["evidence that counts is renewed", ["renew", "no evidence that counts", "true"]],
    ["evidence that counts is renewed in a new era", ["renew in a new era", "no evidence that counts", "true"]],
    ["a renewal leaves n as it is, up to the receipt's", ["renew", "n", eq(n(made), n(receipt))]],
    [
      "a quarantine ends without regard to the receipt",
      ["begin a quarantine", "opened", le(opened(present), opened(made))],
    ],
    [
      "a quarantine lowers an earlier one's end",
      ["begin a quarantine", "quarantineEnd", le(opened(made), quarantineEnd(made))],
    ],
    [
      "a later era is no evidence",
      ["refuse as lost", "no evidence that counts", not(counts(present, receipt, isRecordBehind(present, receipt)))],
    ],
    [
      "evidence of a later era is covered",
      [
        "renew",
        "no evidence that counts",
        not(
          and(
            contradicts(present, receipt),
            or(eq(era(present), era(receipt)), lt(quarantineEnd(present), until(receipt))),
          ),
        ),
      ],
      ["renew", "of this era", "true"],
    ],
    [
      "a new era's number is above the store's alone",
      ["begin a quarantine", "number", lt(number(present), number(made))],
    ],
    ["a new era keeps the number", ["begin a quarantine", "number", le(number(present), number(made))]],
    ["a claim begins before the quarantine's end", ["claim", "from", le(until(present), from(made))]],
    ["a claim begins before the last window's end", ["claim", "from", le(opened(present), from(made))]],
    ["a claim keeps the fence", ["claim", "fence", eq(fence(made), fence(present))]],
    ["a renewal in a new era keeps `from`", ["renew in a new era", "from", eq(from(made), from(present))]],
    ["a renewal in a new era counts as one of the old era", ["renew", "of this era", "true"]],
    [
      "fence and token are not compared in a renewal",
      ["renew", "is the holder's", "true"],
      ["renew", "fence", eq(fence(made), fence(receipt))],
      ["renew", "token", eq(token(made), token(receipt))],
    ],
    ["a renewal lowers the end", ["renew", "until", le(from(made), until(made))]],
    ["a renewal does not reach the receipt's end", ["renew", "reaches the receipt's end", "true"]],
    [
      "a renewal in a new era does not reach the receipt's end",
      ["renew in a new era", "reaches the receipt's end", "true"],
    ],
    ["a holder heeds the answer to an older request", ["hear", "answers the request that bore its receipt", "true"]],
    ["a give-back of any fence or token is clean", ["give back clean", "is the holder's", "true"]],
    ["a give-back comes from a holder that goes on", ["give back clean", "is closed", "true"]],
    ["an end of a quarantine raises `opened`", ["end the quarantine", "opened", "true"]],
  ],
};

/** Receipts under further conditions: what is proven without them is given. */
export function under({
  fixed = {},
  moving = {},
  axioms = [],
  clauses,
  everywhere = {},
  begin = [],
  actions: own = {},
  ...part
}) {
  const actions = Object.entries({ ...receipts.actions, ...own }).map(([name, action]) => [
    name,
    { ...action, ...everywhere, ...clauses[name] },
  ]);
  return {
    ...part,
    fixed: { ...receipts.fixed, ...fixed },
    moving: { ...receipts.moving, ...moving },
    axioms: [...receipts.axioms, ...axioms],
    given: (s) => Object.values(receipts.invariants(s)),
    actions: Object.fromEntries(actions),
    begin: [...receipts.begin, ...begin],
  };
}
