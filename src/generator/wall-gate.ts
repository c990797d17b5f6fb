import { lowerWord, upperWord } from "../id/endianness.ts";
import type { Clock } from "../clock.ts";

// A reading of the monotonic clock as two words: arithmetic with bigints would cost a third of a tick's first ID.
const reading = new BigInt64Array(1);
const words = new Uint32Array(reading.buffer);

/**
 * Proves from the monotonic clock, which is cheaper to read, that the wall clock still shows the same tick.
 *
 * Both clocks run at the same rate (Linux slews them together). Each reading of both gives a lower bound of the monotonic time at which the
 * wall clock was 0; the gate keeps the latest bound. While the bound proves that a tick has not ended, the tick neither leads nor lags the
 * wall clock. After the wall clock was set back, the proof fails early. After it was set forward, a reading contradicts the bound, and the
 * gate starts again. A step of less than a millisecond may stay unnoticed.
 */
export class WallGate {
  readonly #clock: Clock;
  /** Both clocks count from here. */
  readonly #nanos: bigint;
  readonly #upper: number;
  readonly #lower: number;
  readonly #wall: number;
  /** The wall clock showed #wall at least so many ns after #nanos. Infinity until the first reading. */
  #zero = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#nanos = clock.nanos();
    reading[0] = this.#nanos;
    this.#upper = words[upperWord] as number;
    this.#lower = words[lowerWord] as number;
    this.#wall = clock.now();
  }

  /** Reads the wall clock, Unix ms. */
  read(): number {
    const since = this.#since();
    const wall = this.#clock.now();
    const begin = (wall - this.#wall) * 1e6;
    const least = since - begin;
    // Read once more if in doubt: reading the wall clock may have taken any time.
    const contradicted = least < this.#zero && this.#since() - begin < this.#zero;
    if (least - 1e6 > this.#zero || contradicted) this.#zero = least - 1e6;
    return wall;
  }

  /** Before this reading of the monotonic clock, the wall clock shows less than `wall`. */
  before(wall: number): bigint {
    return this.#nanos + BigInt(Math.floor((wall - this.#wall) * 1e6 + this.#zero));
  }

  /** The ns since the gate was made; exact for a hundred days. */
  #since(): number {
    reading[0] = this.#clock.nanos();
    return (((words[upperWord] as number) - this.#upper) | 0) * 2 ** 32 + ((words[lowerWord] as number) - this.#lower);
  }
}
