import { expect } from "vitest";
import { isSnowleaseError, type SnowleaseError } from "../../src/id/errors.ts";
import type { LeaseEvents } from "../../src/lease/events.ts";
import { layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseOptions } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import type { SnowflakeOptions } from "../../src/generator/tick-allocator.ts";
import { fakeClock, type FakeClock, lossyRegistry, memoryRegistry } from "../../src/testing.ts";

/** The time at which every test begins, Unix ms. */
export const start = 1_700_000_000_000;
export const { westid, sonyflake, uid: seconds } = layouts;

export const defaults: Omit<LeaseOptions, "layout" | "pool"> = {
  namespace: "default",
  window: 60_000,
  claimTimeout: 0,
  maxWait: 500,
  operationTimeout: 1000,
  reuse: "any",
  onLost: "stop",
  holder: { host: "a", ip: "10.0.0.1", pid: 1, instance: "" },
};

let tokens = 0;
export const makeToken = (): string => (++tokens).toString(16).padStart(32, "0");

export interface Wish extends Partial<LeaseOptions>, SnowflakeOptions {
  readonly registry?: Registry;
  readonly clock?: FakeClock;
}

export interface Setting {
  readonly clock: FakeClock;
  readonly registry: Registry;
  readonly lease: Lease;
  readonly ids: Snowflake;
  readonly rollbacks: LeaseEvents["clock.rollback"][];
  /** While `cut` is set, renewals do not reach the registry; while `claimsCut` is set, claims do not. */
  readonly wire: { cut: boolean; claimsCut: boolean };
  /** Timestamp and sequence of the next ID. */
  readonly next: () => readonly [timestamp: number, sequence: number];
}

/** A generator on worker 7 of a memory registry, with a clock that stands still. */
export async function open(wish: Wish = {}): Promise<Setting> {
  const { registry: store, clock = fakeClock({ start }), mode, spread, rollback, layout = westid, ...options } = wish;
  const wire = { cut: false, claimsCut: false };
  const registry = lossyRegistry(store ?? memoryRegistry({ clock }), {
    lose: ({ method }) =>
      (wire.cut && method === "renew") || (wire.claimsCut && method === "claim") ? "request" : undefined,
  });
  const host = { registry, clock, makeToken };
  const terms = { ...defaults, layout, pool: layout.pool, workerId: 7, leads: mode === "lead" };
  const lease = await Lease.claim(host, { ...terms, ...options });
  const ids = new Snowflake(lease, { mode, spread, rollback });
  const rollbacks: LeaseEvents["clock.rollback"][] = [];
  lease.on("clock.rollback", (event) => rollbacks.push(event));
  const next = (): readonly [number, number] => {
    const { timestamp, sequence } = layout.decompose(ids.next(), clock.now());
    return [timestamp, sequence];
  };
  return { clock, registry, lease, ids, rollbacks, wire, next };
}

/** The refusal with which a call ends. */
export function thrown(run: () => unknown): SnowleaseError {
  try {
    run();
  } catch (error) {
    if (isSnowleaseError(error)) return error;
    throw error;
  }
  throw new Error("Expected a SnowleaseError, got none");
}

/** An error with this code and these details. */
export const coded = (code: string, details: object = {}): unknown =>
  expect.objectContaining({ code, details: expect.objectContaining(details) });

/** Lets all code run that waits only for promises. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
