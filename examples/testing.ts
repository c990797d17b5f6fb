// Tests of code that makes IDs: a clock that moves when it is told to, a registry in memory, and one that loses what it is told to
// lose. No waiting, no server, the same every time.
//
//   npx tsx examples/testing.ts
import assert from "node:assert/strict";
import { isSnowleaseError, snowlease } from "snowlease";
import {
  type FakeClock,
  fakeClock,
  type Losses,
  lossyRegistry,
  memoryRegistry,
  type RegistryCall,
} from "snowlease/testing";

const clock: FakeClock = fakeClock({ start: Date.UTC(2026, 0, 1) });
let down = false;
// The registry may be told, or not, before the answer is lost: that is what makes the difference to a claim.
const losses: Losses = { lose: ({ method }: RegistryCall) => (down && method === "renew" ? "reply" : undefined) };
const registry = lossyRegistry(memoryRegistry({ clock }), losses);
const ids = await snowlease({ registry, clock, window: "60s" });

// The time in an ID is that of the clock.
const first = ids.next();
assert.equal(ids.lease.layout.decompose(first).timestamp, Date.UTC(2026, 0, 1));

// While renewals are answered, it goes on.
await clock.advance(120_000);
assert.ok(ids.next() > first);

// When they are not, it stops at the end of the window, and goes on once one is.
down = true;
await clock.advance(120_000);
assert.throws(
  () => ids.next(),
  (error) => isSnowleaseError(error, "LEASE_EXPIRED") && error.retryable,
);
down = false;
await clock.advance(2000);
const later = ids.next();

// A clock that was set back: the IDs go on behind those that there are.
clock.step(-1);
assert.ok(ids.next() !== later);

await ids.close();
console.log("all as it should be");
