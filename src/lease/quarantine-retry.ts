import type { SnowleaseError } from "../id/errors.ts";

/** Shares of the window between which the pause between two looks lies: an operator may end a quarantine sooner than it said. */
const [shortest, longest] = [0.15, 0.25];
/** Holders that wait for the same end ask again spread over this share of the window. */
const spread = 0.05;
/** The shortest pause, ms. */
const least = 50;

/**
 * In how many ms to ask again what a quarantine refused: some five times a window, and right behind its end, of which the refusal
 * tells. Undefined for any other refusal. `token`: its digits are random, so that holders that were refused together do not come back
 * together.
 */
export function asksAgainIn({ code, details }: SnowleaseError, window: number, token: string): number | undefined {
  if (code !== "QUARANTINE") return undefined;
  const share = Number.parseInt(token.slice(0, 8), 16) / 2 ** 32;
  const look = window * (shortest + share * (longest - shortest));
  const behind = (details.retryAfterMs ?? Infinity) + share * spread * window;
  return Math.max(least, Math.min(look, behind));
}
