import { configInvalid } from "../id/errors.ts";
import type { RenewRequest, Turns } from "./registry.ts";
import type { Stored } from "./window.ts";

/*
 * Two copies of one process have one token, and each would renew the lease in turn. So the right to renew moves on with each renewal: it
 * names the turn that the registry acknowledged last, and the next one. The copy that comes second names a turn that has passed.
 */

/** Most turns in `Turns.sentTurns`. */
export const mostSentTurns = 8;

/** Whether it is this holder's turn. A record without a turn takes any. */
export function isTurnOf(
  { turn }: Pick<Stored, "turn">,
  { turn: acknowledged, nextTurn, sentTurns = [] }: Turns,
): boolean {
  if (turn === undefined) return true;
  return turn === acknowledged || turn === nextTurn || sentTurns.slice(0, mostSentTurns).includes(turn);
}

/**
 * Whether this renewal was accepted before, and its answer did not arrive. It asks for nothing new while that window lasts by both
 * clocks; afterwards it is a renewal like the first one, as its sender has no other way to open its window again.
 */
export function isRepeat(
  { turn, until }: Pick<Stored, "turn" | "until">,
  { nextTurn, clock: holderClock }: Pick<RenewRequest, "nextTurn" | "clock">,
  clock: number,
): boolean {
  return turn !== undefined && turn === nextTurn && until > Math.max(holderClock, clock);
}

/** Refuses a turn that does not move on: the registry takes such a renewal for a repeat. @throws SnowleaseError CONFIG_INVALID */
export function checkTurns({ turn, nextTurn }: Turns): void {
  if (nextTurn === undefined || nextTurn !== turn) return;
  throw configInvalid(
    `Expected \`nextTurn\` to differ from \`turn\`, got the same text; draw a new one for each renewal that follows an answer.`,
  );
}
