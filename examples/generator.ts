// A generator of your own on a lease, for IDs that are no Snowflakes: here texts such as `2026-11-7-1876034617-0`, of month, worker ID,
// ms since the month began, and count. A lease is a worker ID and a window; a generator on it stays inside of that window, and tells
// the lease what was used when it asks.
//
//   npx tsx examples/generator.ts
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import {
  type Checkpoint,
  layouts,
  Lease,
  type UsageTracker,
  SnowleaseError,
  systemClock,
  type LeaseSnapshot,
  type Usage,
} from "snowlease";
import { memoryRegistry } from "snowlease/testing";

export class Tickets implements UsageTracker {
  readonly #lease: Lease;
  /** Which worker ID and window `#last` belongs to: a lease that was lost goes on with others. */
  #generation = 0;
  #last: Checkpoint | undefined;

  /** @throws SnowleaseError CONFIG_INVALID where the lease has a generator: two of them would make the same IDs. */
  constructor(lease: Lease) {
    this.#lease = lease;
    lease.attach(this);
  }

  /** @throws SnowleaseError LEASE_LOST, WINDOW_NOT_OPEN, LEASE_EXPIRED */
  next(): string {
    const snapshot: LeaseSnapshot | undefined = this.#lease.snapshot;
    if (snapshot === undefined)
      throw new SnowleaseError("LEASE_LOST", "There is no worker ID now; ask another instance.");
    if (snapshot.generation !== this.#generation) {
      this.#generation = snapshot.generation;
      this.#last = undefined;
    }
    const { timestamp: newest, sequence: highest } = this.#last ?? { timestamp: -1, sequence: -1 };
    // Where the clock went back, the last millisecond goes on.
    const timestamp = Math.max(this.#lease.clock.now(), newest);
    // All of the safety is here: the whole millisecond lies in the window.
    if (timestamp < snapshot.from) throw refusal("WINDOW_NOT_OPEN", snapshot.from - timestamp);
    if (timestamp + 1 > snapshot.until) throw refusal("LEASE_EXPIRED", this.#lease.renewsIn);
    const sequence = timestamp === newest ? highest + 1 : 0;
    this.#last = { timestamp, sequence };
    const month = new Date(timestamp).toISOString().slice(0, 7);
    return `${month}-${snapshot.workerId}-${timestamp - Date.parse(month)}-${sequence}`;
  }

  /** Goes with each renewal, for people to see. (A registry's sequences are those of a layout.) */
  checkpoint(): undefined {
    return undefined;
  }

  /** Called once for each worker ID, when it is given back. The lease has no `snapshot` from then on, so no more is made on it. */
  seal(): Usage {
    const { from } = this.#lease;
    return { until: this.#last === undefined ? from : Math.max(from, this.#last.timestamp + 1) };
  }
}

function refusal(code: "WINDOW_NOT_OPEN" | "LEASE_EXPIRED", retryAfterMs: number): SnowleaseError {
  return new SnowleaseError(code, `The window is not open now; try again in ${retryAfterMs} ms.`, { retryAfterMs });
}

const layout = layouts.westid;
const lease = await Lease.claim(
  { registry: memoryRegistry(), clock: systemClock, makeToken: () => randomBytes(16).toString("hex") },
  {
    namespace: "tickets",
    layout,
    pool: layout.pool,
    window: 60_000,
    claimTimeout: 0,
    maxWait: 500,
    operationTimeout: 5000,
    reuse: "any",
    onLost: "switch",
    holder: { host: hostname(), ip: "", pid: process.pid, instance: "tickets" },
  },
);
const tickets = new Tickets(lease);
for (let i = 0; i < 10; i++) console.log(tickets.next());
await lease.close();
