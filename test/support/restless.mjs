// A holder of `npm run prove` that can be restless: it renews all the time, and gives its worker ID back and claims again after some renewals. So
// a store has always just acknowledged a write.

import { setTimeout as sleep } from "node:timers/promises";
import { open as openRecorded } from "../../prove/recorded.mjs";

/** ms. */
const [pause, pauseAfterFailure] = [10, 50];
const mostRenewals = 40;

export async function open(options, note, image) {
  const held = await openRecorded(options, note, image);
  if (!options.isRestless) return held;
  let isEnding = false;
  let isOver = false;
  const end = async () => {
    isEnding = true;
    try {
      await held.close();
    } finally {
      isOver = true;
    }
  };
  const run = async () => {
    for (let left = Math.random() * mostRenewals; left > 0 && !isEnding && !held.isOver; left--) {
      await sleep((await held.renew()) ? Math.random() * pause : pauseAfterFailure);
    }
    if (!isEnding && !held.isOver) await end();
  };
  run().catch(() => undefined);
  return {
    ...held,
    fill: (target) => (isEnding ? 0 : held.fill(target)),
    close: () => (isEnding ? held.close() : end()),
    get isOver() {
      return isOver || held.isOver;
    },
  };
}
