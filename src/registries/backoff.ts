/** How long a store pauses before it asks a server for the second time, ms. */
export const firstPause = 20;
const longestPause = 500;

/** The pause after this one, ms: twice as long, and half a second at most. */
export function nextPause(pause: number): number {
  return Math.min(2 * pause, longestPause);
}
