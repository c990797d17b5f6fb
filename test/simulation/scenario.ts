import type { LeaseOptions } from "../../src/lease/claim.ts";
import { Layout } from "../../src/id/layout.ts";
import type { Weather } from "./network.ts";
import { epoch, type Random } from "./world.ts";

/** The options of a history. Each goes with each other. */
export interface Traits {
  /** The store loses acknowledged writes: it finds that out itself, or is put back to an earlier copy, or has one beside it. */
  readonly forgets: boolean;
  /** It does lose writes: a store that may forget but never does has no cause for a quarantine. */
  readonly goesBack: boolean;
  /** Reads of the store lag. */
  readonly lags: boolean;
  /** The store is behind a daemon that remembers what it answered. */
  readonly remembers: boolean;
  /** The store is only put back: it finds nothing out itself. */
  readonly isSilent: boolean;
  /** An operator ends quarantines. */
  readonly ends: boolean;
  /** The clock of the store goes back by any amount when it is put back: more than any promise allows. */
  readonly isSetBack: boolean;
  /** Processes are copied with their whole state. */
  readonly copies: boolean;
  /** Holders share their leases with threads and child processes. */
  readonly lends: boolean;
  /** Holders lead the clock, and make IDs by the dozen. */
  readonly leads: boolean;
  /** An operator ends claims; clocks step so far that leases switch. */
  readonly unsteady: boolean;
  /** An operator drops the namespace; holders make it again. */
  readonly drops: boolean;
}

/** The choices before a history begins. */
export interface Scenario extends Traits {
  readonly layout: Layout;
  readonly options: Omit<LeaseOptions, "holder">;
  readonly weather: Weather;
  /** The network between a child and its parent. */
  readonly nearby: Weather;
  readonly steps: number;
  /** How many processes run at a time. */
  readonly slots: number;
}

/*
 * Few worker IDs, few sequences, long ticks and a memory of only ten or twenty of them: collisions need few steps, so
 * that a short history shows what a real fleet shows in years.
 */
export function drawn(random: Random, forced: Partial<Traits> = {}): Scenario {
  const lending = random.chance(0.35);
  const traits: Traits = {
    forgets: random.chance(0.3),
    lends: lending,
    leads: random.chance(0.25),
    // Children have to see their parents switch.
    unsteady: random.chance(lending ? 0.6 : 0.4),
    goesBack: random.chance(0.85),
    lags: random.chance(0.3),
    remembers: random.chance(0.3),
    isSilent: random.chance(0.6),
    ends: random.chance(0.3),
    isSetBack: false,
    copies: random.chance(0.2),
    drops: random.chance(0.2),
    ...forced,
  };
  const { forgets, lends, unsteady } = traits;
  // A span of the grid is one tick here, or three.
  const tick = lends ? random.pick([25, 500, 500, 1000]) : random.pick([500, 1000]);
  const layout = layoutOf(tick, lends ? random.pick([1, 2, 3, 6]) : 1);
  const weather: Weather = {
    loseRequest: random.pick([0, 0.1]),
    loseReply: random.pick([0, 0.1, 0.3]),
    lateRequest: random.pick([0, 0.15]),
    lateRelease: unsteady ? random.pick([0, 0.5]) : 0,
    repeatRequest: random.pick([0, 0.2]),
  };
  const nearby = random.chance(0.5) ? weather : { ...weather, loseRequest: 0, loseReply: 0, lateRequest: 0 };
  const window = random.pick([4000, 6000, 15_000]);
  const options: Scenario["options"] = {
    namespace: "default",
    layout,
    pool: { first: 0, last: unsteady ? random.pick([1, 3]) : random.pick([0, 1, 1, 3]) },
    workerId: random.chance(0.2) && !unsteady ? 0 : undefined,
    window,
    claimTimeout: random.pick([0, 5000]),
    maxWait: 500,
    operationTimeout: 3000,
    reuse: "any",
    onLost: unsteady ? "switch" : random.pick(["switch", "stop"]),
    limits: {
      maxWindow: random.pick([window, 20_000]),
      maxClockSkew: unsteady ? 40_000 : random.pick([10_000, 40_000]),
    },
  };
  const slots = lends ? 5 : 3;
  const steps = random.between(25, 85) + (lends ? 70 : 0) + (forgets ? 25 : 0) + (traits.copies ? 15 : 0);
  return { layout, options, weather, nearby, steps, slots, ...traits };
}

function layoutOf(tick: number, sequenceBits: number): Layout {
  const fields = [
    { name: "timestamp", bits: 32 },
    { name: "worker", bits: 2 },
    { name: "sequence", bits: sequenceBits },
  ];
  return new Layout({ fields, epoch: epoch - 600_000, tick });
}
