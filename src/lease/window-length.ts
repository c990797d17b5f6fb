import { shown, SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";

/** Wherever it begins, a window of so many ticks holds two whole ones. */
export const leastTicks = 3;
/** A window that nobody asked for holds at least so many. */
const usualTicks = 4;

/** Window of a claim that names none, ms: at least 4 ticks, and no more than its namespace allows. */
export function usualWindow(window: number, layout: Layout, maxWindow: number): number {
  return Math.min(Math.max(window, usualTicks * layout.tick), maxWindow);
}

/**
 * Refuses a window with which a layout's IDs could not be made, or not be told apart.
 * @throws SnowleaseError CONFIG_INVALID for less than 3 ticks, or for half a wrap of the timestamp or more.
 */
export function checkTerm(name: "window" | "windowMs" | "maxWindow", window: number, layout: Layout): void {
  const least = leastTicks * layout.tick;
  if (window < least) throw invalid(name, `to be at least ${least} ms (${leastTicks} ticks of the layout)`, window);
  const half = (layout.wrap ?? Infinity) / 2;
  // Of an ID that was just made, the timestamp nearest to now has to be its own.
  if (window >= half) throw invalid(name, `to be less than ${half} ms (half a wrap of the layout's timestamp)`, window);
}

function invalid(name: string, rule: string, value: number): SnowleaseError {
  return new SnowleaseError("CONFIG_INVALID", `Expected \`${name}\` ${rule}, got ${shown(value)}.`);
}
