import type { SnowleaseError } from "../id/errors.ts";

/** The pause between two tries, as shares of the window: an operator may end a quarantine early. */
const [shortest, longest] = [0.15, 0.25];
/** The tries right after the end of a quarantine are spread over this share of the window. */
const spread = 0.05;
const leastMs = 50;

/**
 * In how many ms to repeat a request that a quarantine refused: about five times a window, and right after the end that the refusal
 * names. Undefined for any other refusal. `token`: its random digits spread the holders that were refused together.
 */
export function quarantineRetryIn(
  { code, details }: SnowleaseError,
  window: number,
  token: string,
): number | undefined {
  if (code !== "QUARANTINE") return undefined;
  const share = Number.parseInt(token.slice(0, 8), 16) / 2 ** 32;
  const look = window * (shortest + share * (longest - shortest));
  const behind = (details.retryAfterMs ?? Infinity) + share * spread * window;
  return Math.max(leastMs, Math.min(look, behind));
}
