/** Random numbers from a seed: the same seed gives the same numbers (mulberry32). */
export class Random {
  #state: number;

  /** @param seed an integer from 0 to 2^32 - 1. */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** An integer from `low` to `high`. */
  between(low: number, high: number): number {
    return low + Math.floor(this.#next() * (high - low + 1));
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.between(0, items.length - 1)] as Item;
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}
