import { checkInteger, refuse } from "../id/check.ts";
import type { Layout } from "../id/layout.ts";

/** Returns `spread`. @throws SnowleaseError CONFIG_INVALID when it is not a power of two, or exceeds the sequences of a tick. */
export function checkSpread(spread: number, { maxSequence }: Layout): number {
  checkInteger("spread", spread, 1, maxSequence + 1, "the sequences of a tick");
  return Number.isInteger(Math.log2(spread)) ? spread : refuse("spread", "to be a power of two", spread);
}

/**
 * The first sequence of a tick, 0 to spread - 1. Multiples of the golden ratio leave the most even gaps, whether every tick, every second
 * or every thousandth is used.
 */
export function firstSequence(tick: number, spread: number): number {
  return spread === 1 ? 0 : Math.floor(((Math.imul(tick, 0x9e3779b1) >>> 0) / 2 ** 32) * spread);
}
