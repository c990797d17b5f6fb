import { burst } from "./bursts.mjs";

const flatOut = 250_000;
const longestSetBack = 20;

/**
 * How often `make` repeats itself, and how often it throws instead: called without pause; and called `burst` times a millisecond
 * while the wall clock is set back by 1 ms, then by 2, and so on, each time going on for longer than that.
 */
export function duplicates(make) {
  return { flatOut: tally(calls(flatOut, make)), setBack: tally(withClockSetBack(make)) };
}

function tally(made) {
  const ids = made.filter((id) => id !== undefined);
  return { repeated: ids.length - new Set(ids).size, threw: made.length - ids.length };
}

function calls(count, make) {
  return Array.from({ length: count }, () => {
    try {
      return make();
    } catch {
      return undefined;
    }
  });
}

function withClockSetBack(make) {
  const { now } = Date;
  const made = [];
  let behind = 0;
  Date.now = () => now() - behind;
  try {
    for (let by = 1; by <= longestSetBack; by++) {
      behind += by;
      for (let i = 0; i < by + 2; i++) {
        for (const before = Date.now(); Date.now() === before;);
        made.push(...calls(burst, make));
      }
    }
  } finally {
    Date.now = now;
  }
  return made;
}
