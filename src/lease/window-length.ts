import { configInvalid, shown, type SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";

/** A window of 3 ticks contains 2 whole ticks, wherever it begins. */
export const leastTicks = 3;

/** So few ticks are enough for the default window, which `maxWindow` may shorten: after a renewal, a whole tick is still ahead. */
export const leastTicksOfDefault = 2;

/** The window of a claim without one, ms: at least 4 ticks, and at most the namespace's `maxWindow`. */
export function defaultWindow(window: number, layout: Layout, maxWindow: number): number {
  return Math.min(Math.max(window, 4 * layout.tick), maxWindow);
}

/**
 * The longest time between two renewals, ms. Renewals show the registry what it granted, so a registry that went back in time is detected
 * soon.
 */
const longestPause = 40_000;

/** How long after a claim or renewal of a window, ms, the next renewal is due: two can fail before the window closes. */
export function renewalPause(window: number): number {
  return Math.min(window / 3, longestPause);
}

/** Refuses a window of less than `ticks` ticks, or of half a wrap of the timestamp or more. @throws SnowleaseError CONFIG_INVALID */
export function checkWindowLength(
  name: "window" | "windowMs" | "maxWindow",
  window: number,
  layout: Layout,
  ticks: number = leastTicks,
): void {
  const least = ticks * layout.tick;
  if (window < least) throw invalid(name, `to be at least ${least} ms (${ticks} ticks of the layout)`, window);
  const half = (layout.wrap ?? Infinity) / 2;
  // For a new ID, the wrap that is nearest to now counts.
  if (window >= half) throw invalid(name, `to be less than ${half} ms (half a wrap of the layout's timestamp)`, window);
}

function invalid(name: string, rule: string, value: number): SnowleaseError {
  return configInvalid(`Expected \`${name}\` ${rule}, got ${shown(value)}.`);
}
