// Prints IDs, a line each, through ioredis: ioredis.mjs PORT. Goes on after errors, until it is killed.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]), retryStrategy: () => 50 });
redis.on("error", () => undefined);
const keys = Array.from({ length: 50 }, () => "orders");

for (;;) {
  try {
    // At the same time: ioredis sends them before their answers come.
    const made = await Promise.all([redis.mget(keys), ...keys.map((key) => redis.get(key))]);
    process.stdout.write(`${made.flat().join("\n")}\n`);
  } catch {
    await sleep(50);
  }
}
