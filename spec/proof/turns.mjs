// Turns: one claim, any number of copies of its holder. An image is a state of a process, as a snapshot keeps it: a process that draws a
// turn or hears an answer becomes a new image. Each image can be resumed at any time, any number of times, and its requests may be late,
// repeated or lost: at each step the request of any image arrives. A turn has the number of the image that drew it.

import { all, and, either, eq, implies, le, not, or, plus, symbols, unchanged } from "./formulas.mjs";

const fixed = {
  next: "Int -> Int", // the turn that requests of this image store; 0: it has drawn none
  knows: "Int Int -> Bool", // the last acknowledged turn, and the turns that were drawn since
  made: "Int Int -> Bool", // of a first image, a later one
  image: "Int",
  heard: "Int",
};
const { next: nextOf, knows, made, image, heard } = symbols(fixed);

const moving = {
  newest: "Int", // the last image that was made
  turn: "Int", // of the record; 0: none
  answered: "Int -> Bool", // a request of this image was accepted; its answer may be heard at any time
  // No part of the system:
  copied: "Bool",
  behind: "Int -> Bool", // this image, or an image before it, did not know the record's turn at some time
};
const now = symbols(moving);
const next = symbols(moving, "_");

/** The second image is the first one, or was made of it. */
const descends = (a, b) => and(le(a, b), made(a, b));
const isImage = (s, a) => le(0, a, s.newest);
const knowsRecord = (s, a) => or(eq(s.turn, 0), knows(a, s.turn));

/** A request of `image` arrives. */
function request(conditions, changes) {
  const moves = {
    behind: all("a", eq(next.behind("a"), or(now.behind("a"), not(knowsRecord(next, "a"))))),
    ...changes,
  };
  return { "the image exists": isImage(now, image), ...conditions, ...moves, ...unchanged(moving, moves) };
}

/** The process goes on as a new image. It is a copy where `image` is not the newest one. */
function goOn(conditions, known, drawn) {
  const born = next.newest;
  const changes = {
    newest: eq(born, plus(now.newest, 1)),
    copied: eq(next.copied, or(now.copied, not(eq(image, now.newest)))),
    behind: all(
      "a",
      eq(next.behind("a"), or(now.behind(either(eq("a", born), image, "a")), not(knowsRecord(next, "a")))),
    ),
  };
  return {
    "the image exists": isImage(now, image),
    ...conditions,
    "is made of it": all("a", eq(made("a", born), or(eq("a", born), descends("a", image)))),
    "turns known": all("d", eq(knows(born, "d"), known("d"))),
    "turn drawn": eq(nextOf(born), drawn),
    ...changes,
    ...unchanged(moving, changes),
  };
}

const actions = {
  "draw a turn": goOn({}, (d) => or(knows(image, d), eq(d, next.newest)), next.newest),
  "hear renewed": goOn(
    {
      "it was answered": and(isImage(now, heard), now.answered(heard)),
      "the answer is to the newest request": eq(heard, image),
    },
    (d) => eq(d, nextOf(heard)),
    "0",
  ),
  renew: request(
    { "it has drawn": not(eq(nextOf(image), 0)), "turn fits": knowsRecord(now, image) },
    {
      turn: eq(next.turn, nextOf(image)),
      answered: all("a", eq(next.answered("a"), or(now.answered("a"), eq("a", image)))),
    },
  ),
  "give back": request({ "turn fits": knowsRecord(now, image) }, {}),
  "claim again": request({ "turn fits": eq(now.turn, 0) }, {}),
  "refuse as cloned": request({ "turn does not fit": not(knowsRecord(now, image)) }, {}),
};

const invariants = (s) => {
  const images = (names, body) => all(names, implies(and(...names.split(" ").map((name) => isImage(s, name))), body));
  const hasDrawn = (a) => not(eq(nextOf(a), 0));
  return {
    "images and the record's turn are numbered": le(0, s.turn, s.newest),
    "what an image is made of, later images are made of": images(
      "a b c",
      and(made("a", "a"), implies(and(descends("a", "b"), descends("b", "c")), made("a", "c"))),
    ),
    "a drawn turn has the number of its image, which knows it": images(
      "a",
      implies(hasDrawn("a"), and(eq(nextOf("a"), "a"), knows("a", "a"))),
    ),
    "a turn is known only to images made of the one that drew it": all(
      "a d",
      implies(
        and(isImage(s, "a"), knows("a", "d")),
        and(le(0, "d"), descends("d", "a"), or(eq("d", 0), eq(nextOf("d"), "d"))),
      ),
    ),
    "an image that knows a turn knows all that was known with it, or the turn was answered": images(
      "a b",
      implies(
        and(hasDrawn("b"), knows("a", "b")),
        or(s.answered("b"), all("d", implies(knows("b", "d"), knows("a", "d")))),
      ),
    ),
    "the record's turn was drawn by an image made of each answered one": all(
      "a",
      implies(s.answered("a"), and(isImage(s, "a"), hasDrawn("a"), descends("a", s.turn))),
    ),
    "before the first turn all images know that there is none": implies(eq(s.turn, 0), images("a", knows("a", 0))),
    "an image that once did not know the record's turn never knows it again, nor does one made of it": images(
      "a",
      implies(s.behind("a"), not(knowsRecord(s, "a"))),
    ),
    "without copies the newest image knows each turn that an older one may still store": implies(
      not(s.copied),
      images("a b c", implies(and(knows("a", "c"), knows("b", "c"), le("b", "a"), hasDrawn("b")), knows("a", "b"))),
    ),
    "without copies the newest image knows the record's turn": implies(not(s.copied), knows(s.newest, s.turn)),
    "without copies an answer to the newest image is the record's turn": implies(
      and(not(s.copied), s.answered(s.newest)),
      eq(s.turn, s.newest),
    ),
  };
};

const fits = { "no request of a copy that fell behind is accepted": not(now.behind(image)) };

export const turns = {
  name: "turns",
  about: "copies of one holder",
  fixed,
  moving,
  axioms: [],
  given: () => [],
  actions,
  begin: [
    and(eq(now.newest, 0), eq(now.turn, 0), eq(nextOf(0), 0), made(0, 0)),
    all("d", eq(knows(0, "d"), eq("d", 0))),
    all("a", not(or(now.answered("a"), now.behind("a")))),
    not(now.copied),
  ],
  invariants,
  follows: {},
  steps: {
    renew: fits,
    "give back": fits,
    "claim again": fits,
    "refuse as cloned": {
      "a holder that was never copied never hears `cloned` as the answer to its newest request": or(
        now.copied,
        not(eq(image, now.newest)),
      ),
    },
  },
  wrong: [
    ["turns are not compared in a renewal", ["renew", "turn fits", "true"]],
    ["turns are not compared in a give-back", ["give back", "turn fits", "true"]],
    ["a claim is repeated after a renewal", ["claim again", "turn fits", "true"]],
    [
      "a late repeat, of a turn that was stored before, changes the record",
      ["renew", "turn fits", or(knowsRecord(now, image), now.answered(image))],
    ],
    [
      "the turns that were sent are forgotten when the next one is drawn",
      ["draw a turn", "turns known", all("d", eq(knows(next.newest, "d"), eq("d", next.newest)))],
    ],
    [
      "a holder heeds the answer to an older request",
      ["hear renewed", "the answer is to the newest request", descends(heard, image)],
    ],
    ["two images draw the same turn", ["draw a turn", "turn drawn", eq(nextOf(next.newest), nextOf(image))]],
  ],
};
