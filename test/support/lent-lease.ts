import { Layout } from "../../src/id/layout.ts";
import type { LeaseOptions } from "../../src/lease/lease.ts";
import { epoch } from "../simulation/world.ts";
import { defaults } from "./generator.ts";

/** Ticks of 100 ms with 128 sequences, so that few IDs fill one tick. */
export const layout = new Layout({
  fields: [
    { name: "timestamp", bits: 30 },
    { name: "worker", bits: 2 },
    { name: "sequence", bits: 7 },
  ],
  epoch: epoch - 600_000,
  tick: 100,
});

/** The lease of worker 2 that tests lend to others. */
export const options: LeaseOptions = {
  ...defaults,
  layout,
  pool: { first: 0, last: 3 },
  workerId: 2,
  window: 10_000,
  operationTimeout: 3000,
};
