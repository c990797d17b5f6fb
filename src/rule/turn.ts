import { configInvalid } from "../id/errors.ts";
import type { RenewRequest, Turns } from "./registry.ts";
import type { Stored } from "./window.ts";

/*
 * Two copies of one process have the same token, and both would renew the lease. So the right to renew changes with each renewal: a renewal
 * names the turn that the registry acknowledged last, and the next turn. The copy that comes second names a turn that is over.
 */

/** Most turns in `Turns.sentTurns`. */
export const mostSentTurns = 8;

/** Whether it is this holder's turn. A record without a turn accepts any. */
export function isTurnOf(
  { turn }: Pick<Stored, "turn">,
  { turn: acknowledged, nextTurn, sentTurns = [] }: Turns,
): boolean {
  if (turn === undefined) return true;
  return turn === acknowledged || turn === nextTurn || sentTurns.slice(0, mostSentTurns).includes(turn);
}

/**
 * Whether the registry accepted this renewal before, and the answer did not arrive. While the window lasts by both clocks, such a renewal
 * asks for nothing new. After that it counts as a new renewal, because its sender has no other way to open its window again.
 */
export function isRepeat(
  { turn, until }: Pick<Stored, "turn" | "until">,
  { nextTurn, clock: holderClock }: Pick<RenewRequest, "nextTurn" | "clock">,
  clock: number,
): boolean {
  return turn !== undefined && turn === nextTurn && until > Math.max(holderClock, clock);
}

/** Refuses a `nextTurn` that equals `turn`: the registry takes such a renewal for a repeat. @throws SnowleaseError CONFIG_INVALID */
export function checkTurns({ turn, nextTurn }: Turns): void {
  if (nextTurn === undefined || nextTurn !== turn) return;
  throw configInvalid(
    `Expected \`nextTurn\` to differ from \`turn\`, got the same text; draw a new one for each renewal that follows an answer.`,
  );
}
