import { Redis } from "ioredis";
import { layouts } from "../../dist/index.js";
import { Sequences } from "./sequences.mjs";

/** Takes the first number of the pool whose key `take` gets hold of, and makes IDs with it. */
export async function takeNumber({ registry, pool }, take) {
  const redis = new Redis(registry.replace(/\?.*/, ""), { maxRetriesPerRequest: 1 }).on("error", () => undefined);
  try {
    const [first, last] = pool.split("-").map(Number);
    for (let workerId = first; workerId <= last; workerId++) {
      const end = await take(redis, `naive:${workerId}`);
      if (end === undefined) continue;
      const sequences = new Sequences(layouts.westid);
      return { fill: (target) => sequences.fill(target, workerId), close: end, isOver: false };
    }
    throw new Error("The pool is used up.");
  } catch (error) {
    redis.disconnect();
    throw error;
  }
}
