import type { Counter, Gauge } from "prom-client";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { type Clock, monotonic } from "../../lease/clock.ts";
import { Survey } from "../../ops/pool/survey.ts";
import { SharedLook } from "../../ops/shared-look.ts";
import type { Pong, Registry } from "../../rule/registry.ts";
import type { Figures } from "./figures.ts";

/** What is looked up. */
interface RegistryFiguresOptions {
  readonly registry: Registry;
  readonly clock: Clock;
  /** Worker IDs to count. Default: all of a namespace's layout. */
  readonly pool?: PoolBounds | undefined;
  /** Namespaces to count. */
  readonly namespaces: () => readonly string[];
}

/** How long a reader of the figures waits for the registry, ms: well below the 10 s that Prometheus waits. */
const patience = 2000;
/** Shortest time between two looks at the registry, ms. */
const interval = 1000;
/** A difference between the progress of the two clocks that counts as a step, ms. */
const stepTolerance = 250;

/** Figures that are looked up when they are read: whether the registry answers, the clocks, and the pools of namespaces. */
export class RegistryFigures {
  readonly #registry: Registry;
  readonly #clock: Clock;
  readonly #namespaces: () => readonly string[];
  readonly #survey: Survey;
  readonly #shared: SharedLook;
  readonly #up: Gauge;
  readonly #offset: Gauge;
  readonly #steps: Counter<"direction">;
  #pinging = false;
  /** The wall clock less the monotonic one when they were last compared, ms. */
  #drift: number;

  constructor(figures: Figures, { registry, clock, pool, namespaces }: RegistryFiguresOptions) {
    this.#registry = registry;
    this.#clock = clock;
    this.#namespaces = namespaces;
    this.#survey = new Survey(registry, pool);
    this.#shared = new SharedLook({ clock, interval, patience }, () => this.#ask());
    this.#drift = this.#compared();
    this.#up = figures.gauge(
      "registry_up",
      `1: the registry answered within ${patience / 1000} s when these figures were read. 0: it did not.`,
    );
    this.#offset = figures.gauge(
      "clock_offset_seconds",
      "This machine's clock less the registry's; NaN while the registry does not answer.",
    );
    this.#steps = figures.counter(
      "clock_steps_total",
      "Steps of this machine's wall clock against its monotonic one, as seen from one reading of the figures to the next.",
      ["direction"],
    );
    for (const direction of ["forward", "back"]) this.#steps.inc({ direction }, 0);
    const { found } = this.#survey;
    figures.gauge(
      "worker_ids",
      "Worker IDs of the pool by state, as last counted; `unused`: never claimed.",
      ["namespace", "state"],
      function* () {
        for (const [namespace, { counts }] of found) {
          for (const [state, count] of Object.entries(counts)) yield [{ namespace, state }, count];
        }
      },
    );
    figures.gauge(
      "layout_end_timestamp_seconds",
      "Unix time of the first timestamp that no longer fits the namespace's layout; nothing for one that wraps.",
      ["namespace"],
      function* () {
        for (const [namespace, { layout }] of found) {
          if (layout.wrap === undefined) yield [{ namespace }, layout.endOfLife / 1000];
        }
      },
    );
  }

  /** Looks at the registry, for 2 s at most. Never rejects. */
  async look(): Promise<void> {
    // A late answer still comes, and is for the next reader.
    if (!(await this.#shared.wait()) && this.#pinging) this.#sees(undefined);
  }

  async #ask(): Promise<void> {
    this.#compareClocks();
    // Each is worth showing without the other.
    await Promise.allSettled([this.#ping(), this.#survey.step(this.#namespaces())]);
    void this.#survey.goOn(this.#clock);
  }

  async #ping(): Promise<void> {
    const sent = this.#clock.now();
    this.#pinging = true;
    const pong = await this.#registry.ping().catch(() => undefined);
    this.#pinging = false;
    this.#sees(pong, (sent + this.#clock.now()) / 2);
  }

  #sees(pong: Pong | undefined, at = 0): void {
    this.#up.set(pong === undefined ? 0 : 1);
    this.#offset.set(pong === undefined ? NaN : (at - pong.clock) / 1000);
  }

  #compared(): number {
    return this.#clock.now() - monotonic(this.#clock);
  }

  #compareClocks(): void {
    const drift = this.#compared();
    const by = drift - this.#drift;
    this.#drift = drift;
    if (Math.abs(by) >= stepTolerance) this.#steps.inc({ direction: by > 0 ? "forward" : "back" });
  }
}
