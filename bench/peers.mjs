import { snowlease } from "snowlease";
import { burst, bursts, median, quartile } from "./bursts.mjs";
import { duplicates } from "./duplicates.mjs";
import { interleave } from "./interleave.mjs";
import { peers } from "./peers/peers.mjs";
import { figure, printTable } from "./table.mjs";

const ours = (options) => snowlease({ registry: "memory:", workerId: 7, ...options });
const made = Array.from({ length: burst });
const ids = new BigUint64Array(burst);

// A text that is glued together is a rope, and reading it is what puts it in one piece.
let read = 0;
const flat = (text) => {
  read ^= text.charCodeAt(text.length - 1);
  return text;
};

/** Every case has a process of its own, so that these loops are compiled for one generator only. */
const asMade = (make) => {
  const next = make();
  return bursts(() => {
    for (let i = 0; i < burst; i++) made[i] = next();
  });
};

const ourMade = async (options) => {
  const generator = await ours(options);
  return bursts(() => {
    for (let i = 0; i < burst; i++) ids[i] = generator.next();
  });
};

const ourText = async (options) => {
  const generator = await ours(options);
  return asText({ make: () => () => generator.nextString(), text: String });
};

const asText = ({ make, text }) => {
  const next = make();
  const run = () => {
    for (let i = 0; i < burst; i++) made[i] = flat(text(next()));
  };
  return bursts(run, { check: () => duplicates(() => text(next())) });
};

export const groups = {
  made: {
    cases: {
      "snowlease next()": () => ourMade(),
      "snowlease next(), shared": () => ourMade({ shared: true }),
      "snowlease fill()": async () => {
        const generator = await ours();
        return bursts(() => generator.fill(ids));
      },
      ...Object.fromEntries(Object.entries(peers).map(([name, { make }]) => [name, async () => asMade(make)])),
    },
  },
  text: {
    cases: {
      "snowlease nextString()": () => ourText(),
      "snowlease nextString(), shared": () => ourText({ shared: true }),
      ...Object.fromEntries(Object.entries(peers).map(([name, peer]) => [name, async () => asText(peer)])),
    },
  },
};

/** Prints what an ID of each costs as it is made and as text, how many times ours that is, and how often it repeated itself. */
export async function run() {
  const results = {};
  for (const [key, { cases }] of Object.entries(groups)) {
    results[key] = await interleave(import.meta.url, key, Object.keys(cases), { processes: 2 });
  }
  const first = { made: results.made.get("snowlease next()"), text: results.text.get("snowlease nextString()") };
  const costs = (key, name) => {
    const result = results[key].get(name);
    if (result === undefined) return ["-", "-", "-"];
    const ratio = median(result.rounds.map((ns, i) => ns / first[key].rounds[i]));
    return [median(result.rounds), ratio, quartile(result.rounds)].map(figure);
  };
  const told = (name) => {
    const { flatOut, setBack } = results.text.get(name)?.check ?? {};
    return [tally(flatOut), tally(setBack)];
  };
  const row = (title, inMade, inText) => [title, ...costs("made", inMade), ...costs("text", inText), ...told(inText)];
  const rows = [
    row("snowlease", "snowlease next()", "snowlease nextString()"),
    row("snowlease, shared", "snowlease next(), shared", "snowlease nextString(), shared"),
    row("snowlease fill(400)", "snowlease fill()", undefined),
    ...Object.keys(peers).map((name) => row(name, name, name)),
  ];
  const head = ["", "ns", "ratio", "quiet ns", "text ns", "ratio", "quiet ns", "repeated: flat out", "clock set back"];
  printTable(`An ID beside its peers', as it is made and as text, in bursts of ${burst}`, head, rows);
}

function tally(told) {
  if (told === undefined) return "-";
  const { repeated, threw } = told;
  return `${repeated.toLocaleString("en")}${threw === 0 ? "" : `, threw ${threw.toLocaleString("en")}`}`;
}
