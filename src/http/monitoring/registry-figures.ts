import type { PoolBounds } from "../../id/pool-bounds.ts";
import { bothClocks, type Clock, jumpBetween, stepTolerance } from "../../clock.ts";
import { Survey } from "../../ops/pool/survey.ts";
import { SharedLook } from "../../ops/shared-look.ts";
import type { Pong, Registry } from "../../rule/registry.ts";
import type { Figures } from "./figures.ts";

export interface RegistryFiguresOptions {
  /** An instrumented registry: calls for the figures themselves count, too. */
  readonly registry: Registry;
  readonly clock: Clock;
  /** Worker IDs to count. Default: all worker IDs of the namespace's layout. */
  readonly pool?: PoolBounds | undefined;
  readonly namespaces: () => readonly string[];
}

/** How long a reader of the figures waits for the registry, ms. Prometheus waits 10 s for the figures. */
const patience = 2000;
/** Shortest time between two looks at the registry, ms. */
const interval = 1000;

/**
 * Figures that are looked up when they are read: whether the registry answers, the clocks, and the pools of namespaces. Returns the
 * function that looks them up. It takes at most 2 s and never rejects.
 */
export function registryFigures(
  figures: Figures,
  { registry, clock, pool, namespaces }: RegistryFiguresOptions,
): () => Promise<void> {
  const up = figures.gauge(
    "registry_up",
    `1: the registry answered within ${patience / 1000} s when these figures were read. 0: it did not.`,
  );
  const offset = figures.gauge(
    "clock_offset_seconds",
    "This machine's clock less the registry's; NaN while the registry does not answer.",
  );
  const steps = figures.counter(
    "clock_steps_total",
    "Steps of this machine's wall clock against its monotonic one, as seen from one reading of the figures to the next.",
    ["direction"],
  );
  for (const direction of ["forward", "back"]) steps.inc({ direction }, 0);
  /** How far the registry's clock was ahead of this one, ms. */
  let ahead = 0;
  const survey = new Survey(registry, () => clock.now() + ahead, pool);
  const { found } = survey;
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
    "overdue_renewals",
    "Holders, of whichever daemon or program, that are late with their renewal, as last counted: less than a third of their window is left, and a renewal was due after the first third.",
    ["namespace"],
    function* () {
      for (const [namespace, { overdue }] of found) yield [{ namespace }, overdue];
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

  let seen = bothClocks(clock);
  let pinging = false;

  function compareClocks(): void {
    const present = bothClocks(clock);
    const by = jumpBetween(seen, present);
    seen = present;
    if (Math.abs(by) >= stepTolerance) steps.inc({ direction: by > 0 ? "forward" : "back" });
  }

  function show(pong: Pong | undefined, at = 0): void {
    up.set(pong === undefined ? 0 : 1);
    offset.set(pong === undefined ? NaN : (at - pong.clock) / 1000);
    if (pong !== undefined) ahead = pong.clock - at;
  }

  async function ping(): Promise<void> {
    const sent = clock.now();
    pinging = true;
    const pong = await registry.ping().catch(() => undefined);
    pinging = false;
    show(pong, (sent + clock.now()) / 2);
  }

  const shared = new SharedLook({ clock, interval, patience }, async () => {
    compareClocks();
    // Each is worth showing without the other.
    await Promise.allSettled([ping(), survey.step(namespaces())]);
    void survey.goOn(clock);
  });

  return async () => {
    // The next reader gets an answer that comes too late for this one.
    if (!(await shared.wait()) && pinging) show(undefined);
  };
}
