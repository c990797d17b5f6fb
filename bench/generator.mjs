import { randomUUID } from "node:crypto";
import { encodings, Layout, Ring, snowlease } from "snowlease";
import { burst, bursts, median, quartile } from "./bursts.mjs";
import { duplicates } from "./duplicates.mjs";
import { interleave } from "./interleave.mjs";
import { peers, sapphire } from "./peers/peers.mjs";
import { figure, printTable } from "./table.mjs";
import { Unguarded } from "./unguarded.mjs";

const epoch = 1_490_346_283_706;
const ours = (options) => snowlease({ registry: "memory:", workerId: 7, ...options });
const v7 = peers["uuid v7"].make();

const numbers = new Float64Array(burst);
const ids = new BigUint64Array(burst);
const texts = Array.from({ length: burst }, () => "");
const objects = Array.from({ length: burst });

// A text that is glued together is a rope, and reading it is what puts it in one piece: some generators leave that to others.
let read = 0;
const flat = (text) => {
  read ^= text.charCodeAt(text.length - 1);
  return text;
};

// Each case writes its own loop: a shared one would be compiled for all of them at once.
const dateNow = async () =>
  bursts(() => {
    for (let i = 0; i < burst; i++) numbers[i] = Date.now();
  });

/** Of 53 bits like safe53, but with as many IDs a tick as a burst. */
const tall = Layout.parse(`timestamp:41,worker:3,sequence:9@${epoch}/1`);

/** As many IDs a tick as are to be filled at once; 2^21 is 16 MiB. */
const wide = Layout.parse(`timestamp:41,worker:1,sequence:21@${epoch}/1`);

function fillCase(count, options) {
  return async () => {
    const generator = await ours(options);
    const target = new BigUint64Array(count);
    return bursts(
      () => {
        for (let made = 0; made < count;) made += generator.fill(target.subarray(made));
      },
      { size: count },
    );
  };
}

function copyCase(count) {
  return async () => {
    const [target, source] = [new BigUint64Array(count), new BigUint64Array(count).fill(1n)];
    return bursts(() => target.set(source), { size: count });
  };
}

function formCase(format) {
  return async () => {
    const generator = await ours();
    return bursts(() => {
      for (let i = 0; i < burst; i++) texts[i] = flat(generator.nextString(format));
    });
  };
}

function oneText(make) {
  return async () => {
    const next = await make();
    return bursts(() => (texts[0] = flat(next())), { size: 1 });
  };
}

export const groups = {
  bigint: {
    title: `An ID as a bigint, in bursts of ${burst}`,
    cases: {
      "snowlease next()": async () => {
        const generator = await ours();
        const run = () => {
          for (let i = 0; i < burst; i++) ids[i] = generator.next();
        };
        return bursts(run, { check: () => duplicates(() => generator.next()) });
      },
      "snowlease nextNumber(), 53 bits": async () => {
        const generator = await ours({ layout: tall });
        return bursts(() => {
          for (let i = 0; i < burst; i++) numbers[i] = generator.nextNumber();
        });
      },
      "Date.now() alone": dateNow,
      "the same bits, unguarded": async () => {
        const generator = new Unguarded(Layout.parse("westid"));
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = generator.next();
        });
      },
      "@sapphire/snowflake": async () => {
        const generator = sapphire();
        const run = () => {
          for (let i = 0; i < burst; i++) ids[i] = generator.generate();
        };
        return bursts(run, { check: () => duplicates(() => generator.generate()) });
      },
    },
  },

  text: {
    title: `An ID as text, in one piece, in bursts of ${burst}`,
    cases: {
      "snowlease nextString()": formCase("decimal"),
      "@sapphire/snowflake": async () => {
        const generator = sapphire();
        return bursts(() => {
          for (let i = 0; i < burst; i++) texts[i] = flat(generator.generate().toString());
        });
      },
      "crypto.randomUUID()": async () => {
        const run = () => {
          for (let i = 0; i < burst; i++) texts[i] = flat(randomUUID());
        };
        return bursts(run, { check: () => duplicates(() => randomUUID()) });
      },
    },
  },

  forms: {
    title: `Its text forms, in bursts of ${burst}`,
    cases: {
      "snowlease next()": async () => {
        const generator = await ours();
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = generator.next();
        });
      },
      ...Object.fromEntries(Object.keys(encodings).map((name) => [`nextString("${name}")`, formCase(name)])),
    },
  },

  single: {
    title: "The first ID of a millisecond as text, once a millisecond (the timing itself included)",
    cases: {
      "snowlease nextString()": oneText(async () => {
        const generator = await ours();
        return () => generator.nextString();
      }),
      "a constant": oneText(async () => () => "1278549019894743040"),
      "@sapphire/snowflake": oneText(async () => {
        const generator = sapphire();
        return () => generator.generate().toString();
      }),
      "crypto.randomUUID()": oneText(async () => randomUUID),
      "uuid v7()": oneText(async () => v7),
    },
  },

  bulk: {
    title: "IDs in bulk, into a BigUint64Array",
    cases: {
      "fill(4096), 32 KiB": fillCase(4096),
      "copying 32 KiB": copyCase(4096),
      "fill(131072), 1 MiB": fillCase(2 ** 17, { layout: wide, workerId: 1 }),
      "copying 1 MiB": copyCase(2 ** 17),
      "fill(2097152), 16 MiB": fillCase(2 ** 21, { layout: wide, workerId: 1 }),
      "copying 16 MiB": copyCase(2 ** 21),
      "@sapphire/snowflake, one by one": async () => {
        const generator = sapphire();
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = generator.generate();
        });
      },
    },
  },

  lead: {
    title: `An ID in lead mode, in bursts of ${burst}`,
    cases: {
      "lead next()": async () => {
        const generator = await ours({ mode: "lead" });
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = generator.next();
        });
      },
      "Ring next()": async () => {
        const ring = new Ring(await ours({ mode: "lead" }));
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = ring.next();
        });
      },
      "lead fill(32768), read one by one": async () => {
        const generator = await ours({ mode: "lead" });
        const stock = new BigUint64Array(32_768);
        let at = stock.length;
        return bursts(() => {
          for (let i = 0; i < burst; i++) {
            if (at === stock.length) {
              generator.fill(stock);
              at = 0;
            }
            ids[i] = stock[at++];
          }
        });
      },
      "wall next()": async () => {
        const generator = await ours();
        return bursts(() => {
          for (let i = 0; i < burst; i++) ids[i] = generator.next();
        });
      },
    },
  },

  bulkText: {
    title: "IDs in bulk, as text",
    cases: {
      "fillText, 4096 lines": async () => {
        const generator = await ours();
        const target = Buffer.alloc(4096 * 20);
        return bursts(() => generator.fillText(target), { size: 4096 });
      },
      "fillText, 4096 strings of JSON": async () => {
        const generator = await ours();
        const target = Buffer.alloc(4096 * 22);
        return bursts(() => generator.fillText(target, { before: '"', after: '",' }), { size: 4096 });
      },
      "JSON.stringify of 4096 strings that are there": async () => {
        const { ids } = await someIds(4096);
        const texts = Array.from(ids, String);
        return bursts(() => (objects[0] = JSON.stringify(texts)), { size: 4096 });
      },
    },
  },

  decoding: {
    title: "An ID taken apart",
    cases: {
      "Layout decompose()": async () => {
        const { ids, layout } = await someIds();
        return bursts(() => {
          for (let i = 0; i < burst; i++) objects[i] = layout.decompose(ids[i]);
        });
      },
      "@sapphire/snowflake deconstruct()": async () => {
        const { ids } = await someIds();
        const generator = sapphire();
        return bursts(() => {
          for (let i = 0; i < burst; i++) objects[i] = generator.deconstruct(ids[i]);
        });
      },
    },
  },
};

async function someIds(count = burst) {
  const generator = await ours();
  const ids = generator.take(count);
  return { ids, layout: generator.lease.layout };
}

/**
 * Prints what a result costs in each case, and how many times the first case's cost that is: the median of all rounds (of its
 * ratios to the first case's in the same round), then the same of a quiet moment.
 */
export async function run() {
  for (const [key, { title, cases }] of Object.entries(groups)) {
    const names = Object.keys(cases);
    const results = await interleave(import.meta.url, key, names);
    const first = results.get(names[0]).rounds;
    const checked = [...results.values()].some(({ check }) => check !== null);
    const rows = [...results].map(([name, { rounds, check }]) => {
      const usual = [median(rounds), median(rounds.map((ns, i) => ns / first[i]))];
      const quiet = [quartile(rounds), quartile(rounds) / quartile(first)];
      const tallies = checked ? [told(check?.flatOut), told(check?.setBack)] : [];
      return [name, ...[...usual, ...quiet].map(figure), ...tallies];
    });
    const head = [
      "",
      "ns",
      "ratio",
      "quiet ns",
      "ratio",
      ...(checked ? ["duplicates: flat out", "clock set back"] : []),
    ];
    printTable(title, head, rows);
  }
}

function told(tally) {
  if (tally === undefined) return "-";
  const { repeated, threw } = tally;
  return threw === 0
    ? repeated.toLocaleString("en")
    : `${repeated.toLocaleString("en")}, threw ${threw.toLocaleString("en")}`;
}
