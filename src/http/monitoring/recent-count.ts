/** Counted are 15 spans of this length, ms. */
const span = 60_000;
const spans = 15;

/** Counts what happened in the last quarter of an hour. Times in Unix ms. */
export class RecentCount {
  /** Oldest first. */
  readonly #spans: { readonly since: number; count: number }[] = [];

  add(at: number): void {
    const newest = this.#spans.at(-1);
    if (newest !== undefined && at - newest.since < span && at >= newest.since) newest.count++;
    else this.#spans.push({ since: at, count: 1 });
    if (this.#spans.length > spans) this.#spans.shift();
  }

  /** How often, and when counting began; undefined where it did not happen. */
  at(now: number): { readonly count: number; readonly since: number } | undefined {
    const recent = this.#spans.filter(({ since }) => since > now - spans * span);
    const [first] = recent;
    if (first === undefined) return undefined;
    return { count: recent.reduce((sum, { count }) => sum + count, 0), since: first.since };
  }
}
