import { checkInteger, refuse } from "../id/check.ts";
import type { Layout } from "../id/layout.ts";

/**
 * The number, which is one of different sequences that ticks may begin with in a layout.
 * @throws SnowleaseError CONFIG_INVALID for one that is no power of two, or more than a tick has.
 */
export function checkSpread(spread: number, { maxSequence }: Layout): number {
  checkInteger("spread", spread, 1, maxSequence + 1, "the sequences of a tick");
  return Number.isInteger(Math.log2(spread)) ? spread : refuse("spread", "to be a power of two", spread);
}

/**
 * The sequence that a tick begins with, 0 to spread - 1. Multiples of the golden ratio leave the most even gaps that there are, whether
 * every tick is used, every second or every thousandth: over a thousand ticks each shard gets its share to within a few.
 */
export function firstSequence(tick: number, spread: number): number {
  return spread === 1 ? 0 : Math.floor(((Math.imul(tick, 0x9e3779b1) >>> 0) / 2 ** 32) * spread);
}
