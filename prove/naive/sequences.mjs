/** IDs of a number: the next sequences of the tick that the clock shows, never of a tick before the last one of this process. */
export class Sequences {
  #layout;
  #tick = -1;
  #next = 0;

  constructor(layout) {
    this.#layout = layout;
  }

  fill(target, workerId) {
    const tick = this.#layout.tickOf(Date.now());
    if (tick < this.#tick) return 0;
    if (tick > this.#tick) this.#next = 0;
    this.#tick = tick;
    const count = Math.min(target.length, this.#layout.maxSequence + 1 - this.#next);
    for (let i = 0; i < count; i++) target[i] = this.#layout.encode(tick, workerId, this.#next++);
    return count;
  }
}
