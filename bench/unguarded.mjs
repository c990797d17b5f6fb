const nanos = process.hrtime.bigint;

/**
 * The bits that `Snowflake` makes, in the way in which it makes them, less what makes them safe: no lease, no window, no memory
 * of what was used. Here to show what those cost, and for nothing else: it repeats itself when the clock goes back.
 */
export class Unguarded {
  #layout;
  #words = new Uint32Array(2);
  #id = new BigUint64Array(this.#words.buffer);
  #tick = -1;
  #next = 0;
  #last = -1;
  #low = 0;
  #deadline = 0n;
  #zero = 2n ** 80n;

  constructor(layout) {
    this.#layout = layout;
  }

  next() {
    if (this.#next > this.#last || nanos() >= this.#deadline) this.#open();
    this.#words[0] = this.#low + this.#next++;
    return this.#id[0];
  }

  #open() {
    const before = nanos();
    const wall = Date.now();
    const zero = before - BigInt(wall + 1) * 1_000_000n;
    if (zero > this.#zero || this.#zero === 2n ** 80n) this.#zero = zero;
    this.#deadline = BigInt(wall + 1) * 1_000_000n + this.#zero;
    const tick = this.#layout.tickOf(wall);
    if (tick !== this.#tick) this.#next = 0;
    this.#tick = tick;
    this.#last = this.#layout.maxSequence;
    this.#id[0] = this.#layout.encode(tick, 7, 0);
    this.#low = this.#words[0];
  }
}
