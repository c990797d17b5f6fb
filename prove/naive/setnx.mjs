// What is common on Redis: the first number whose key nobody has set, for ever; the number of a process of this host that is dead
// is taken over at once.

import { Redis } from "ioredis";
import { layouts } from "../../dist/index.js";
import { Sequences } from "./sequences.mjs";

export async function open({ registry, pool, host }) {
  const redis = new Redis(registry.replace(/\?.*/, ""), { maxRetriesPerRequest: 1 }).on("error", () => undefined);
  const [first, last] = pool.split("-").map(Number);
  const mine = `${host} ${process.pid}`;
  for (let workerId = first; workerId <= last; workerId++) {
    const key = `naive:${workerId}`;
    const theirs = (await redis.setnx(key, mine)) === 1 ? mine : await redis.get(key);
    const [theirHost, theirPid] = (theirs ?? "").split(" ");
    if (theirs !== mine && (theirHost !== host || isAlive(Number(theirPid)))) continue;
    await redis.set(key, mine);
    const sequences = new Sequences(layouts.westid);
    return { fill: (target) => sequences.fill(target, workerId), close: () => redis.del(key), isOver: false };
  }
  redis.disconnect();
  throw new Error("The pool is used up.");
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
