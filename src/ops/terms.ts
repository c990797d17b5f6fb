import { shown, SnowleaseError } from "../core/errors.ts";
import type { Layout } from "../core/layout.ts";

/** Wherever it begins, a window of so many ticks holds two whole ones. */
const leastTicks = 3;
/** A window that nobody asked for holds at least so many. */
const usualTicks = 4;

/** Window of a claim that names none, ms: at least 4 ticks, and no more than its namespace allows. */
export function usualWindow(window: number, layout: Layout, maxWindow: number): number {
  return Math.min(Math.max(window, usualTicks * layout.tick), maxWindow);
}

/** @throws SnowleaseError CONFIG_INVALID for a window of less than 3 ticks. */
export function checkTicks(name: string, window: number, layout: Layout): void {
  const least = leastTicks * layout.tick;
  if (window >= least) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`${name}\` to be at least ${least} ms (${leastTicks} ticks of the layout), got ${shown(window)}.`,
  );
}
