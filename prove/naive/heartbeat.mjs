// The other common way on Redis: a key that expires unless it is refreshed. Nothing tells the one that was late.

import { Redis } from "ioredis";
import { layouts } from "../../dist/index.js";
import { Sequences } from "./sequences.mjs";

export async function open({ registry, pool, window, host }) {
  const redis = new Redis(registry.replace(/\?.*/, ""), { maxRetriesPerRequest: 1 }).on("error", () => undefined);
  const [first, last] = pool.split("-").map(Number);
  for (let workerId = first; workerId <= last; workerId++) {
    const key = `naive:${workerId}`;
    if ((await redis.set(key, host, "PX", window, "NX")) === null) continue;
    const beat = setInterval(() => redis.set(key, host, "PX", window).catch(() => undefined), window / 3);
    const sequences = new Sequences(layouts.westid);
    return {
      fill: (target) => sequences.fill(target, workerId),
      close() {
        clearInterval(beat);
        return redis.del(key);
      },
      isOver: false,
    };
  }
  redis.disconnect();
  throw new Error("The pool is used up.");
}
