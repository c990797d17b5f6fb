import { configInvalid, shown, type SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";

/** A window of 3 ticks contains 2 whole ticks, wherever it begins. */
export const leastTicks = 3;

/** The window of a claim without one, ms: at least 4 ticks, and at most the namespace's `maxWindow`. */
export function defaultWindow(window: number, layout: Layout, maxWindow: number): number {
  return Math.min(Math.max(window, 4 * layout.tick), maxWindow);
}

/** Refuses a window of less than 3 ticks, or of half a wrap of the timestamp or more. @throws SnowleaseError CONFIG_INVALID */
export function checkWindowLength(name: "window" | "windowMs" | "maxWindow", window: number, layout: Layout): void {
  const least = leastTicks * layout.tick;
  if (window < least) throw invalid(name, `to be at least ${least} ms (${leastTicks} ticks of the layout)`, window);
  const half = (layout.wrap ?? Infinity) / 2;
  // The wrap of a new ID is found as the one nearest to now.
  if (window >= half) throw invalid(name, `to be less than ${half} ms (half a wrap of the layout's timestamp)`, window);
}

function invalid(name: string, rule: string, value: number): SnowleaseError {
  return configInvalid(`Expected \`${name}\` ${rule}, got ${shown(value)}.`);
}
