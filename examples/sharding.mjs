// Rows spread over shards by `id % shards`. A service that makes an ID now and then makes nearly all of them at the start of a
// millisecond, with sequence 0: without `spread`, they all land on one shard.
//
//   node examples/sharding.mjs [shards]
import { setTimeout as sleep } from "node:timers/promises";
import { snowlease } from "snowlease";

const shards = Number(process.argv[2] ?? 8);
const rows = 400;

/** How many rows each shard gets of a service that is not busy. */
async function fill(options) {
  const ids = await snowlease(options);
  const counts = Array.from({ length: shards }, () => 0);
  for (let i = 0; i < rows; i++) {
    counts[Number((await ids.nextAsync()) % BigInt(shards))]++;
    await sleep(1);
  }
  await ids.close();
  return counts;
}

function show(title, counts) {
  const share = Math.max(...counts) / (rows / shards);
  console.log(`${title}: ${counts.join(" ")}  (the fullest has ${share.toFixed(1)} times its share)`);
}

// `spread` is a power of two, and at least as large as the number of shards.
const spread = 2 ** Math.ceil(Math.log2(shards));
show("without spread", await fill({}));
show(`spread ${String(spread).padEnd(7)}`, await fill({ spread }));

// IDs of a span of time lie between two numbers on every shard: a query for a day asks each of them for one range of its key.
const ids = await snowlease();
const day = Date.UTC(2026, 0, 1);
const { first, last } = ids.lease.layout.rangeOf(day, day + 86_400_000);
console.log(`2026-01-01: WHERE id BETWEEN ${first} AND ${last}`);
await ids.close();
