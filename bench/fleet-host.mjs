// One process of the fleet: many leases on one daemon, each by a client of its own, as that many programs would have them. It does what it is told, and
// tells how long claims and renewals took.

import { writeFileSync } from "node:fs";
import { snowlease } from "snowlease";
import { openRegistry } from "../dist/registries/index.js";

const { url, token, layout, namespace, leases, window, file } = JSON.parse(process.argv[2]);
/** Claims of one process at once. */
const atOnce = 4;
/** Between two IDs of a lease, ms. */
const pace = 1000;

const generators = [];
const ids = [];
let seen;
let cpu;

function forget() {
  seen = { claims: [], renewals: [], left: [], failed: 0, lost: 0, refused: 0, errors: [] };
  cpu = process.cpuUsage();
}

function note(error) {
  if (seen.errors.length < 3) seen.errors.push(`${error.code}: ${error.message}`);
}

/** A registry whose claims and renewals are timed, and which notes how much of its window was left when a renewal was answered. */
async function timedRegistry() {
  const registry = await openRegistry({ kind: "http", urls: [url], token }, { operationTimeout: 5000 });
  let until;
  const timed = async (times, ask) => {
    const begin = performance.now();
    const answer = await ask();
    times().push(performance.now() - begin);
    return answer;
  };
  return {
    ...registry,
    async claim(request) {
      const answer = await timed(
        () => seen.claims,
        () => registry.claim(request),
      );
      ({ until } = answer);
      return answer;
    },
    async renew(request) {
      const answer = await timed(
        () => seen.renewals,
        () => registry.renew(request),
      );
      if (answer.outcome !== "renewed") return answer;
      seen.left.push(until - Date.now());
      ({ until } = answer);
      return answer;
    },
  };
}

async function claimSome() {
  while (generators.length < leases) {
    const i = generators.push(undefined) - 1;
    const registry = await timedRegistry();
    const made = await claimed({ registry, namespace, layout, window, instance: `${process.pid}-${i}` });
    const { lease } = made;
    lease.on("renew-failed", ({ error }) => {
      seen.failed++;
      note(error);
    });
    lease.on("lost", ({ error }) => {
      seen.lost++;
      note(error);
    });
    generators[i] = made;
  }
}

/** Asks again as a program does that its supervisor starts anew. */
async function claimed(options) {
  for (;;) {
    try {
      return await snowlease(options);
    } catch (error) {
      seen.failed++;
      note(error);
    }
  }
}

function makeIds() {
  for (const made of generators) {
    try {
      ids.push(made.next());
    } catch (error) {
      seen.refused++;
      note(error);
    }
  }
}

const tasks = {
  async claim() {
    await Promise.all(Array.from({ length: atOnce }, claimSome));
    setInterval(makeIds, pace);
  },

  /** What happened since the last time. */
  report() {
    const { user, system } = process.cpuUsage(cpu);
    const told = { ...seen, cpu: (user + system) / 1e6 };
    forget();
    return told;
  },

  /** Gives everything back, and writes all IDs to the file. */
  async close() {
    makeIds();
    const ends = await Promise.allSettled(generators.map((made) => made.close()));
    writeFileSync(file, new BigUint64Array(ids));
    return { kept: ends.filter(({ status }) => status === "rejected").length };
  },
};

forget();
async function obey(task) {
  process.send((await tasks[task]()) ?? null);
}

process.on("message", (task) => void obey(task));
process.on("disconnect", () => process.exit());
process.send("ready");
