import { Layout, layouts } from "snowlease";
import { median } from "./bursts.mjs";
import { cycle, measured, row } from "./claims.mjs";
import { interleave } from "./interleave.mjs";
import { printLine, printTable } from "./table.mjs";

const wide = Layout.parse("timestamp:28,worker:22,sequence:13@1700000000000/1000");

/** How many of a pool's worker IDs others hold. */
export const fills = [
  { taken: 0, layout: layouts.westid },
  { taken: 512, layout: layouts.westid },
  { taken: 1023, layout: layouts.westid },
];
export const wideFill = { taken: 4000, layout: wide };

const nameOf = ({ taken, layout }) => `${taken.toLocaleString("en")} of ${(layout.pool.last + 1).toLocaleString("en")}`;
const yardstick = "one write";
const clients = 32;
/** How often each of the clients claims and gives back. */
const turns = 10;

/** The cases of a registry. `write()`: the yardstick, with `end()`. `open(fill)`: a registry whose pool is filled so. */
export function poolGroups(all, { writer, open }) {
  return {
    claims: {
      cases: {
        async [yardstick]() {
          const { write, end } = await writer();
          return measured({ write }, end);
        },
        ...Object.fromEntries(
          all.map((fill) => [
            nameOf(fill),
            async () => {
              const registry = await open(fill);
              return measured(cycle(registry, fill.layout), () => registry.close());
            },
          ]),
        ),
      },
    },
  };
}

/** Fills the pools, and prints what the calls cost beside one write, and how many a second many clients do. */
export async function measurePools(module, title, all, open) {
  for (const fill of all) await fillPool(open, fill);
  const names = [yardstick, ...all.map(nameOf)];
  const results = await interleave(module, "claims", names, { rounds: 2, processes: 2 });
  const of = (name, operation) => results.get(name).rounds.map((times) => times[operation]);
  const writes = of(yardstick, "write");
  const medians = writes.map(median);
  const rows = [row(yardstick, writes, medians)];
  for (const operation of ["claim", "renew", "release"]) {
    for (const fill of all) rows.push(row(`${operation}, ${nameOf(fill)} taken`, of(nameOf(fill), operation), medians));
  }
  printTable(title, ["", "p50 us", "p99 us", "a second", "ratio"], rows);
  printLine(`${clients} clients at once: ${await grantsAtOnce(open)} worker IDs granted and given back a second`);
}

async function fillPool(open, fill) {
  const registry = await open(fill);
  await registry.init({ namespace: "bench", layout: fill.layout.fingerprint, maxWindow: 600_000 });
  for (let begin = 0; begin < fill.taken; begin += 50) {
    const some = Array.from({ length: Math.min(50, fill.taken - begin) }, (_, i) => begin + i);
    await Promise.all(some.map((i) => claimFor(registry, fill.layout, i)));
  }
  await registry.close();
}

async function claimFor(registry, layout, i) {
  const answer = await registry.claim({
    namespace: "bench",
    token: i.toString(16).padStart(32, "0"),
    workerId: i,
    pool: layout.pool,
    holder: { host: `other-${i % 500}`, ip: "10.0.0.1", pid: i, instance: "" },
    clock: Date.now(),
    window: 600_000,
    layout: layout.fingerprint,
  });
  if (answer.outcome !== "granted") throw new Error(`Worker ${i} was refused: ${answer.outcome}.`);
}

/** Claims and gives back with many clients at once; how many worker IDs a second are granted. */
async function grantsAtOnce(open) {
  const [fill] = fills;
  const registries = await Promise.all(Array.from({ length: clients }, () => open(fill)));
  const begun = performance.now();
  await Promise.all(
    registries.map(async (registry, site) => {
      const { claim, release } = cycle(registry, fill.layout, site);
      for (let i = 0; i < turns; i++) {
        await claim();
        await release();
      }
    }),
  );
  const seconds = (performance.now() - begun) / 1000;
  await Promise.all(registries.map((registry) => registry.close()));
  return Math.round((clients * turns) / seconds);
}
