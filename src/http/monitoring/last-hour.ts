import type { Clock } from "../../clock.ts";
import type { ErrorCode } from "../../id/errors.ts";
import { takenOf } from "../../ops/pool/pool-counts.ts";
import type { InstrumentedCall } from "../../ops/instrumented.ts";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";

const minute = 60_000;
const minutes = 60;
/** How many namespaces are remembered. Beyond that, the least recently used one is forgotten. */
const mostNamespaces = 200;

/** Events of a namespace in one minute, as far as this daemon saw them. */
export interface Minute {
  claims: number;
  renewals: number;
  readonly refused: Map<ErrorCode, number>;
  /** The part of the pool that was taken, 0 to 1. Undefined if this daemon did not look. */
  taken: number | undefined;
  /** This machine's clock minus the registry's, ms. Undefined if this daemon did not look. */
  offset: number | undefined;
}

/** The last hour of each namespace, minute by minute, in memory. The dashboard's charts need no other monitoring. */
export class LastHour {
  readonly #clock: Clock;
  /** Namespace -> number of the minute since 1970 -> its events. */
  readonly #seen = new BoundedMap<string, Map<number, Minute>>(mostNamespaces);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The caller must pass every call of the registry. */
  watch({ operation, namespace, answer }: InstrumentedCall): void {
    if (namespace === undefined) return;
    const { outcome } = (answer ?? {}) as { readonly outcome?: string };
    if (operation === "claim" && outcome === "granted") this.#present(namespace).claims++;
    if (operation === "renew" && outcome === "renewed") this.#present(namespace).renewals++;
  }

  refused(namespace: string, code: ErrorCode): void {
    const { refused } = this.#present(namespace);
    refused.set(code, (refused.get(code) ?? 0) + 1);
  }

  look({ namespace, counts, pool, read, offset }: Picture): void {
    const present = this.#present(namespace);
    if (read === 1) present.taken = takenOf(counts) / Math.max(1, pool.last - pool.first + 1);
    present.offset = offset;
  }

  /** The minutes of the last hour, the present one at the end. Undefined for a minute without events. */
  of(namespace: string): readonly (Minute | undefined)[] {
    const seen = this.#seen.get(namespace);
    const first = this.#number - minutes + 1;
    return Array.from({ length: minutes }, (_, i) => seen?.get(first + i));
  }

  get #number(): number {
    return Math.floor(this.#clock.now() / minute);
  }

  #present(namespace: string): Minute {
    const number = this.#number;
    const seen = this.#seen.get(namespace) ?? new Map<number, Minute>();
    this.#seen.set(namespace, seen);
    const known = seen.get(number);
    if (known !== undefined) return known;
    // If the clock was set back, some minutes lie in the future.
    for (const other of seen.keys()) if (other <= number - minutes || other > number) seen.delete(other);
    const present = { claims: 0, renewals: 0, refused: new Map(), taken: undefined, offset: undefined };
    seen.set(number, present);
    return present;
  }
}
