import { describe, expect, it } from "vitest";
import { encodings } from "../../src/id/encodings.ts";
import { Layout, layouts } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import { Ring } from "../../src/generator/ring.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { joinLease } from "../../src/sharing/joined-lease.ts";
import { LeaseClient } from "../../src/sharing/lease-client.ts";
import { leaseServer } from "../../src/sharing/lease-server.ts";
import { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { coded, defaults, makeToken, open, settled, thrown } from "../support/generator.ts";

/** Four IDs a tick. */
const small = Layout.parse("timestamp:41,worker:10,sequence:2@1490346283706/1");
const suspended = coded("LEASE_EXPIRED");

/** Takes the IDs that are available now. */
function drain({ next }: { next(): bigint }): bigint[] {
  const made: bigint[] = [];
  for (;;) {
    try {
      made.push(next());
    } catch {
      return made;
    }
  }
}

/** Expects that no ID came twice. */
function expectUnique(ids: readonly bigint[]): void {
  expect(ids.length).toBeGreaterThan(0);
  expect(new Set(ids).size).toBe(ids.length);
}

describe("a suspended generator", () => {
  it("makes no ID in any way, and says what it waits for", async () => {
    const { ids, clock, lease } = await open();
    const before = [ids.next(), ids.next()];
    await ids.suspend();
    expect(lease.state).toBe("suspended");
    const target = new BigUint64Array(4);
    for (const take of [
      () => ids.next(),
      () => ids.nextString(),
      () => ids.nextString("base62"),
      () => ids.fill(target),
      () => ids.take(4),
      () => ids.fillText(new Uint8Array(100)),
    ]) {
      expect(thrown(take)).toEqual(suspended);
      expect(thrown(take).message).toContain("given back by `suspend`; IDs go on after `resume`");
    }
    expect(target).toEqual(new BigUint64Array(4));
    await clock.advance(120_000);
    expect(thrown(() => ids.next())).toEqual(suspended);
    await ids.resume();
    expectUnique([...before, ids.next(), ids.next()]);
  });

  it("gives its worker ID back: another process has it at once, and this one gets another afterwards", async () => {
    const { ids, lease, clock, registry } = await open({ workerId: undefined, pool: { first: 7, last: 8 } });
    const own = [ids.next(), ids.next()];
    await ids.suspend();
    const terms = { ...defaults, layout: layouts.westid, pool: { first: 7, last: 7 } };
    const other = new Snowflake(await Lease.claim({ registry, clock, makeToken }, terms));
    expect(other.lease.workerId).toBe(7);
    const theirs = [other.next(), other.next()];
    await ids.resume();
    expect(lease.workerId).toBe(8);
    const text = [ids.nextString("base62"), ids.nextString("base62"), ids.nextString("base62")];
    expectUnique([...own, ...theirs, ...text.map((each) => encodings.base62.decode?.(each) ?? 0n)]);
  });

  it("is suspended even if the registry does not answer", async () => {
    const clock = fakeClock();
    const memory = memoryRegistry({ clock });
    const { ids, lease } = await open({
      clock,
      registry: { ...memory, release: () => Promise.reject(new Error("The line is dead.")) },
    });
    ids.next();
    await expect(ids.suspend()).rejects.toThrow("The line is dead.");
    expect(lease.state).toBe("suspended");
    expect(thrown(() => ids.next())).toEqual(suspended);
  });
});

describe("callers that wait", () => {
  it("for the next tick get their IDs after `resume`, none of the old window", async () => {
    const { ids, clock } = await open({ layout: small });
    const before = drain({ next: () => ids.next() });
    expect(before).toHaveLength(4);
    const after: bigint[] = [];
    const waiting = Array.from({ length: 10 }, () => ids.nextAsync({ timeout: 60_000 }).then((id) => after.push(id)));
    await settled();
    const stopped = clock.now();
    await ids.suspend();
    await clock.advance(1000);
    expect(after).toEqual([]);
    const resumed = clock.now();
    await ids.resume();
    await clock.advance(10);
    await Promise.all(waiting);
    expect(after).toHaveLength(10);
    expectUnique([...before, ...after]);
    expect(stopped).toBeLessThan(resumed);
    for (const id of after) expect(small.decompose(id).timestamp).toBeGreaterThanOrEqual(resumed);
  });

  it("while it is suspended, too, or reject when their time is over", async () => {
    const { ids, clock } = await open({ layout: small });
    await ids.suspend();
    const patient = ids.nextAsync({ timeout: 60_000 });
    const brief = ids.nextAsync({ timeout: 100 }).catch((error: unknown) => error);
    const aborted = new AbortController();
    const given = ids.nextAsync({ timeout: 60_000, signal: aborted.signal }).catch((error: unknown) => error);
    await clock.advance(100);
    expect(await brief).toEqual(suspended);
    aborted.abort("enough");
    expect(await given).toBe("enough");
    const resumed = clock.now();
    await ids.resume();
    expect(small.decompose(await patient).timestamp).toBeGreaterThanOrEqual(resumed);
  });

  it("in the queue of a full tick reject when their time is over", async () => {
    const { ids, clock } = await open({ layout: small });
    drain({ next: () => ids.next() });
    const results = Array.from({ length: 6 }, () => ids.nextAsync({ timeout: 50 }).catch((error: unknown) => error));
    await settled();
    await ids.suspend();
    await clock.advance(100);
    expect(await Promise.all(results)).toEqual(Array.from({ length: 6 }, () => suspended));
    await ids.resume();
    expect(typeof ids.next()).toBe("bigint");
  });
});

describe("IDs that were prepared before", () => {
  it("in a ring are dropped, and it is filled again after `resume`", async () => {
    const { ids, clock } = await open({ layout: small, mode: "lead" });
    const ring = new Ring(ids, { boost: 2, scheduleInterval: 1000 });
    const before = [ring.next(), ring.next()];
    await ids.suspend();
    expect(ring.left).toBe(0);
    expect(thrown(() => ring.next())).toEqual(suspended);
    await clock.advance(2000);
    expect(ring.left).toBe(0);
    await ids.resume();
    await clock.advance(0);
    expect(ring.left).toBe(ring.size);
    const after = drain({ next: () => ring.next() });
    expect(after.length).toBeGreaterThan(ring.size);
    expectUnique([...before, ...after]);
    // Also by its timer, later on.
    await clock.advance(60_000);
    expect(ring.left).toBe(ring.size);
  });

  it("by other threads are used no more, and these threads go on after `resume`", async () => {
    const { lease, clock } = await open({ workerId: undefined });
    await lease.close();
    const registry = memoryRegistry({ clock });
    const terms = { ...defaults, layout: layouts.westid, pool: layouts.westid.pool };
    const ids = new SharedSnowflake(await Lease.claim({ registry, clock, makeToken }, terms));
    const thread = joinLease(ids.share(), { clock });
    const before = [ids.next(), thread.next(), ids.next(), thread.next()];
    await ids.suspend();
    await clock.advance(1);
    expect(thrown(() => thread.next())).toMatchObject({ code: "LEASE_EXPIRED", retryable: true });
    expect(thrown(() => ids.next())).toEqual(suspended);
    await ids.resume();
    await clock.advance(1);
    expectUnique([...before, ids.next(), thread.next(), ids.next(), thread.next()]);
    await thread.close();
    await ids.close();
  });

  it("by a child process are used no more when it suspends; its lender refuses claims meanwhile", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const terms = { ...defaults, layout: layouts.westid, pool: layouts.westid.pool, onLost: "switch" as const };
    const lender = new SharedSnowflake(await Lease.claim({ registry, clock, makeToken }, terms));
    if (lender.blocks instanceof LeaseClient) throw new Error("It lends its own lease.");
    const server = leaseServer(lender.lease, lender.blocks);
    const lease = await Lease.claim({ registry: server, clock, makeToken }, { ...terms, borrows: true });
    const child = new Snowflake(lease, { share: await LeaseClient.open(lease) });
    const before = [child.next(), lender.next(), child.next()];
    await child.suspend();
    expect(thrown(() => child.next())).toEqual(suspended);
    await lender.suspend();
    const refused = Lease.claim({ registry: server, clock, makeToken }, { ...terms, borrows: true });
    await expect(refused).rejects.toMatchObject({ code: "LEASE_EXPIRED", retryable: true });
    await lender.resume();
    await child.resume();
    await clock.advance(1);
    expectUnique([...before, child.next(), lender.next(), child.next()]);
    await child.close();
    await lender.close();
  });
});

it("copies of a process that resume with the same random bytes get a worker ID each", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  // A machine that was copied while it ran repeats the state of its random generator.
  const repeated = "0123456789abcdef".repeat(2);
  const terms = { ...defaults, layout: layouts.westid, pool: layouts.westid.pool };
  const copies: Snowflake[] = [];
  for (let i = 0; i < 2; i++) {
    const own = fakeClock();
    await own.advance(i / 1000);
    const ids = new Snowflake(await Lease.claim({ registry, clock: own, makeToken: () => repeated }, terms));
    await ids.suspend();
    copies.push(ids);
  }
  await Promise.all(copies.map((ids) => ids.resume()));
  expect(new Set(copies.map(({ lease }) => lease.workerId)).size).toBe(2);
  expectUnique(copies.flatMap((ids) => Array.from({ length: 100 }, () => ids.next())));
});
