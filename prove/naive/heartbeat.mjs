// The other common way on Redis: a key that expires unless it is refreshed. Nothing tells the one that was late.

import { takeNumber } from "./numbers.mjs";

export function open(options) {
  const { host, window } = options;
  return takeNumber(options, async (redis, key) => {
    if ((await redis.set(key, host, "PX", window, "NX")) === null) return undefined;
    const beat = setInterval(() => redis.set(key, host, "PX", window).catch(() => undefined), window / 3);
    return () => {
      clearInterval(beat);
      return redis.del(key);
    };
  });
}
