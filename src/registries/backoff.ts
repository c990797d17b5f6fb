/** The pause of a store before it asks a server for the second time, ms. */
export const firstPause = 20;
const longestPause = 500;

/** The pause after this one, ms: twice as long, but at most half a second. */
export function nextPause(pause: number): number {
  return Math.min(2 * pause, longestPause);
}
