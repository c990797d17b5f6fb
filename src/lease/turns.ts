import { createHash } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { Turns } from "../rule/registry.ts";
import { mostSentTurns } from "../rule/turn.ts";

/** The turns of one claim. Its holder sends them with each request, so that a copy of the process is detected (rule/turn.ts). */
export class HolderTurns {
  readonly #draw: () => string;
  #acknowledged: string | undefined;
  #next: string | undefined;
  #sent: readonly string[] = [];
  /** Whether `#next` was drawn while the window was open. */
  #isFromOpenWindow = false;
  #hasJumped = false;

  /** `draw`: makes a turn, by `freshToken`. */
  constructor(draw: () => string) {
    this.#draw = draw;
  }

  /** For a renewal at the time `wall` of a window that ends at `until`, Unix ms. */
  forRenewal(wall: number, until: number): Turns {
    // The turn is repeated until an answer comes. But a copy of the process that was made in between would repeat it, too. So draw again if
    // this may be such a copy.
    const isStale = this.#hasJumped || (this.#isFromOpenWindow && wall >= until);
    if (this.#next === undefined || (isStale && this.#sent.length < mostSentTurns)) {
      if (this.#next !== undefined) this.#sent = [...this.#sent, this.#next];
      this.#next = this.#draw();
      this.#isFromOpenWindow = wall < until;
      this.#hasJumped = false;
    }
    return this.present;
  }

  /** For any other request. */
  get present(): Turns {
    return { turn: this.#acknowledged, nextTurn: this.#next, sentTurns: this.#sent };
  }

  /** The registry renewed the lease, and answered with the turn that it stored. A registry without turns stores none. */
  acknowledge(turn: string | undefined): void {
    if (turn === undefined || turn !== this.#next) return;
    this.#acknowledged = turn;
    this.#next = undefined;
    this.#sent = [];
  }

  /** The wall clock jumped: this process may be a copy that was resumed. */
  noteJump(): void {
    this.#hasJumped = true;
  }
}

/**
 * 32 random hex digits. A machine that was copied while it ran repeats the random bytes of its kernel; the clocks make the digits of the
 * copies differ. `random`: 128 random bits as 32 hex digits.
 */
export function freshToken(clock: Clock, random: string): string {
  return createHash("sha256").update(`${random} ${clock.nanos()} ${clock.now()}`).digest("hex").slice(0, 32);
}
