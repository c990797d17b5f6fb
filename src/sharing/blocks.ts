import type { Layout } from "../id/layout.ts";
import type { Tenure } from "../lease/lease.ts";
import { RecentTicks, type Ticks } from "../generator/recent.ts";
import { Cut, type Grid, type Lanes } from "./shared-allocator.ts";

/** Where lanes come from: the grid, or whoever lends from one. 0: none now. */
export type TakeLanes = (span: number, held: number) => Lanes;

/**
 * What one generator of several may use of each tick, and has used: the sequences of the lanes that it took of the tick's span,
 * in the order in which it took them.
 */
export class LaneTicks implements Ticks {
  readonly #cut: Cut;
  readonly #none: number;
  readonly #take: TakeLanes;
  /** How many sequences were used of a tick, less one, where those of the lanes are counted one after the other. */
  readonly #used: RecentTicks;
  /** Lanes by span; spans that the memory of ticks no longer reaches are let go. */
  readonly #held: Map<number, number[]> = new Map();

  /** @param from Unix ms from which on ticks may be used. */
  constructor(layout: Layout, from: number, take: TakeLanes) {
    this.#cut = new Cut(layout);
    this.#none = layout.maxSequence + 1;
    this.#take = take;
    this.#used = new RecentTicks(layout, from);
  }

  get floor(): number {
    return this.#used.floor;
  }

  get highest(): number {
    return this.#used.highest;
  }

  sequenceOf(tick: number): number {
    return this.#used.sequenceOf(tick);
  }

  nextOf(tick: number): number {
    const { sequences } = this.#cut;
    const next = this.#used.sequenceOf(tick) + 1;
    const lanes = this.#lanesOf(this.#cut.spanOf(tick));
    const at = Math.floor(next / sequences);
    if (at >= lanes.length && !this.#takeMore(this.#cut.spanOf(tick), lanes)) return this.#none;
    return (lanes[at] ?? 0) * sequences + (next % sequences);
  }

  /** The last sequence of the lane that this one is in. */
  lastOf(sequence: number): number {
    const { sequences } = this.#cut;
    return sequence - (sequence % sequences) + sequences - 1;
  }

  raise(tick: number, sequence: number): void {
    const { sequences } = this.#cut;
    const at = this.#lanesOf(this.#cut.spanOf(tick)).indexOf(Math.floor(sequence / sequences));
    this.#used.raise(tick, at * sequences + (sequence % sequences));
  }

  #lanesOf(span: number): number[] {
    const known = this.#held.get(span);
    if (known !== undefined) return known;
    const lanes: number[] = [];
    this.#held.set(span, lanes);
    const oldest = this.#cut.spanOf(this.#used.floor);
    for (const other of this.#held.keys()) if (other < oldest) this.#held.delete(other);
    return lanes;
  }

  #takeMore(span: number, lanes: number[]): boolean {
    const taken = this.#take(span, lanes.length);
    for (let lane = 0; lane < this.#cut.lanes; lane++) if (((taken >>> lane) & 1) === 1) lanes.push(lane);
    return taken !== 0;
  }
}

/**
 * The part of a grid that one generator takes for itself.
 * @param want told where there are none: whoever keeps a stock may get more.
 */
export function laneTicks(
  layout: Layout,
  grid: Grid,
  seat: number,
  { generation, floor }: Tenure,
  want: (span: number, held: number) => void = (span, held) => grid.want(span, held),
): LaneTicks {
  return new LaneTicks(layout, floor, (span, held) => {
    grid.note(seat, span);
    const lanes = grid.take(generation, span, Math.max(1, held), grid.cut.spare(held, grid.expected(span)));
    if (lanes === 0) want(span, held);
    return lanes;
  });
}
