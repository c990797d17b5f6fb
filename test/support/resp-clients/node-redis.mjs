// Prints IDs, a line each, through node-redis: node-redis.mjs PORT. Goes on after errors, until it is killed.

import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

// With these options, the client does not repeat a command by itself that it has sent.
const socket = { host: "127.0.0.1", port: Number(process.argv[2]), reconnectStrategy: 50 };
const redis = createClient({ RESP: 3, socket }).on("error", () => undefined);
await redis.connect();
const keys = Array.from({ length: 50 }, () => "orders");

for (;;) {
  try {
    // The client sends them before their answers come.
    const made = await Promise.all([redis.mGet(keys), ...keys.map((key) => redis.get(key))]);
    process.stdout.write(`${made.flat().join("\n")}\n`);
  } catch {
    await sleep(50);
  }
}
