import type { Clock } from "../../lease/clock.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import { takenOf } from "../../ops/pool/pool-counts.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import { isRefusal } from "./refusal-counter.ts";

/** What happened in one namespace within a minute, as this daemon saw it. */
export interface TrendPoint {
  claims: number;
  renewals: number;
  refusals: number;
  /** Worker IDs that were taken; undefined where this daemon did not look at the pool. */
  taken: number | undefined;
  /** This machine's clock less the registry's, ms. */
  skew: number | undefined;
}

/** The length of a point, ms, and how many are kept: an hour. */
const minute = 60_000;
export const trendLength = 60;
/** Namespaces that are followed. With more, the one that was used the longest ago is forgotten. */
const mostNamespaces = 200;

/** The points of one namespace by their minute since 1970. */
type Hour = Map<number, TrendPoint>;

/** Follows namespaces over the last hour, in memory and at a fixed size: a point a minute. */
export class Trends {
  readonly #clock: Clock;
  readonly #hours = new BoundedMap<string, Hour>(mostNamespaces);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Expects every call of the registry. */
  watch(call: InstrumentedCall): void {
    const { operation, namespace, answer } = call;
    if (namespace === undefined) return;
    const outcome = (answer as { readonly outcome?: string } | undefined)?.outcome;
    if (operation === "claim" && outcome === "granted") this.#point(namespace).claims++;
    if (operation === "renew" && outcome === "renewed") this.#point(namespace).renewals++;
    if (isRefusal(call)) this.#point(namespace).refusals++;
  }

  /** Expects pictures of pools that are up to date. */
  see({ namespace, counts, read, offset }: Picture): void {
    const point = this.#point(namespace);
    point.skew = offset;
    // A part of a pool is no figure of its use.
    if (read === 1) point.taken = takenOf(counts);
  }

  /** The last hour, oldest first; undefined for a minute in which nothing was seen. */
  of(namespace: string): readonly (TrendPoint | undefined)[] {
    const hour = this.#hours.get(namespace);
    const now = this.#minute();
    return Array.from({ length: trendLength }, (_, i) => hour?.get(now - trendLength + 1 + i));
  }

  #minute(): number {
    return Math.floor(this.#clock.now() / minute);
  }

  #point(namespace: string): TrendPoint {
    const hour: Hour = this.#hours.get(namespace) ?? new Map();
    this.#hours.set(namespace, hour);
    const now = this.#minute();
    const point = hour.get(now) ?? { claims: 0, renewals: 0, refusals: 0, taken: undefined, skew: undefined };
    if (hour.has(now)) return point;
    hour.set(now, point);
    // Also those that a clock which was set back has left ahead.
    for (const at of hour.keys()) if (at <= now - trendLength || at > now) hour.delete(at);
    return point;
  }
}
