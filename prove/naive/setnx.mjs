// What is common on Redis: the first number whose key nobody has set, for ever; the number of a process of this host that is dead
// is taken over at once.

import { takeNumber } from "./numbers.mjs";

export function open(options) {
  const { host } = options;
  return takeNumber(options, async (redis, key) => {
    const mine = `${host} ${process.pid}`;
    if ((await redis.setnx(key, mine)) === 0) {
      const [theirHost, theirPid] = ((await redis.get(key)) ?? "").split(" ");
      if (theirHost !== host || isAlive(Number(theirPid))) return undefined;
      await redis.set(key, mine);
    }
    return () => redis.del(key);
  });
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
