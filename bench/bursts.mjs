import { setTimeout } from "node:timers/promises";

/** Calls timed together. 4096 IDs a millisecond is the ceiling of most layouts: a burst stays far below it. */
export const burst = 400;

const burstsPerRound = 25;
/** What runs once a millisecond is compiled only after a few thousand of them. */
const warmUpBursts = 4000;
/** One of them takes the slowest peer so long that it is compiled well before, ms. */
const longestWarmUp = 20_000;

/**
 * A case whose `run` makes `size` results, every one of them stored. A round answers the median of its bursts, ns a result.
 * Each burst begins with a fresh millisecond: a loop that calls a generator without pause measures only the ceiling.
 */
export function bursts(run, { size = burst, ...others } = {}) {
  return {
    async warm() {
      // Sleeping in between, since all cases warm up at once.
      const end = performance.now() + longestWarmUp;
      for (let i = 0; i < warmUpBursts && performance.now() < end; i++) {
        await setTimeout(1);
        run();
      }
    },
    round: () => median(Array.from({ length: burstsPerRound }, () => timed(run))) / size,
    ...others,
  };
}

function timed(run) {
  for (const now = Date.now(); Date.now() === now;);
  const begin = performance.now();
  run();
  return (performance.now() - begin) * 1e6;
}

/** The middle one; of an even number, the upper of the two. */
export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1];
}

/** A quarter of them are smaller: what something costs while the machine does little else. */
export function quartile(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 2];
}
