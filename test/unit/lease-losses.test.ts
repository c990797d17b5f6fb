import { describe, expect, it } from "vitest";
import { edited } from "../../src/conformance/receipts.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import type { LeaseEvents } from "../../src/lease/events.ts";
import { Lease, type LeaseOptions } from "../../src/lease/lease.ts";
import type { ClaimRequest, Registry, ReleaseRequest, RenewRequest } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { type FakeClock, fakeClock, memoryRegistry } from "../../src/testing.ts";

const window = 60_000;
const here = { host: "here", ip: "", pid: 1, instance: "" };
const namespace = "default";

/** A registry, and what its holders sent. */
interface World {
  readonly clock: FakeClock;
  readonly registry: Registry;
  readonly claims: ClaimRequest[];
  readonly renewals: RenewRequest[];
  readonly releases: ReleaseRequest[];
  /** The registry does not answer. */
  off: boolean;
  /** It refuses everything with this. */
  refusal: Error | undefined;
}

function newWorld(): World {
  const clock = fakeClock();
  const store = memoryRegistry({ clock });
  const sent = { claims: [] as ClaimRequest[], renewals: [] as RenewRequest[], releases: [] as ReleaseRequest[] };
  const world: World = {
    clock,
    ...sent,
    off: false,
    refusal: undefined,
    registry: {
      ...store,
      claim: (request) => passed(sent.claims, request, () => store.claim(request)),
      renew: (request) => passed(sent.renewals, request, () => store.renew(request)),
      release: (request) => passed(sent.releases, request, () => store.release(request)),
    },
  };
  async function passed<Request, Answer>(
    list: Request[],
    request: Request,
    ask: () => Promise<Answer>,
  ): Promise<Answer> {
    list.push(request);
    if (world.refusal !== undefined) throw world.refusal;
    if (world.off) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is cut off.");
    return ask();
  }
  return world;
}

let tokens = 0;

function claim(
  { clock, registry }: World,
  options: Partial<LeaseOptions> = {},
  onEnd?: () => Promise<void>,
  signal?: AbortSignal,
): Promise<Lease> {
  return Lease.claim(
    { registry, clock, makeToken: () => (++tokens).toString(16).padStart(32, "0"), onEnd },
    {
      namespace,
      layout: layouts.westid,
      pool: { first: 0, last: 7 },
      window,
      claimTimeout: 0,
      maxWait: 500,
      operationTimeout: 1000,
      reuse: "any",
      onLost: "stop",
      holder: here,
      ...options,
    },
    signal,
  );
}

function eventsOf<Name extends keyof LeaseEvents>(lease: Lease, name: Name): LeaseEvents[Name][] {
  const events: LeaseEvents[Name][] = [];
  lease.on(name, (event) => events.push(event));
  return events;
}

/** Lets the listeners run. */
async function told({ clock }: World): Promise<void> {
  await clock.advance(0);
}

/** The registry goes back to before this holder's last renewals: seen from it, its receipt is ahead. */
async function goBack(world: World, lease: Lease): Promise<void> {
  const [request] = world.renewals.slice(-1);
  const { receipt } = await sentNext(world, lease);
  if (request === undefined || receipt === undefined) throw new Error("It has not renewed yet.");
  await world.registry.renew({ ...request, receipt: edited(receipt, { renewals: 99 }) }).catch(() => undefined);
}

/** What the lease would send now. */
async function sentNext(world: World, lease: Lease): Promise<RenewRequest> {
  world.off = true;
  await lease.renew();
  world.off = false;
  const [request] = world.renewals.slice(-1);
  if (request === undefined) throw new Error("It sent nothing.");
  return request;
}

describe("a lost lease", () => {
  it("says that another holder has the worker ID", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    world.off = true;
    await world.clock.advance(window + 1);
    world.off = false;
    const other = await claim(world, { workerId: lease.workerId, holder: { ...here, host: "elsewhere" } });
    await lease.renew();
    await told(world);
    expect(lost).toMatchObject([
      { reason: "taken", workerId: 0, error: { code: "LEASE_LOST", details: { reason: "taken" } } },
    ]);
    expect(lost[0]?.error.message).toContain("another holder claimed it");
    expect(lease.signal.reason).toBe(lost[0]?.error);
    await other.orphan();
  });

  it("says that another claim had the worker ID before the window passed, and which IDs are in doubt", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    const began = world.clock.now();
    await world.clock.advance(1000);
    // As in a store that was put back, and where another process gave the worker ID back.
    const { receipt: _, ...asked } = await sentNext(world, lease);
    await world.registry.release({ ...asked, turn: undefined, nextTurn: undefined, used: { until: began + 500 } });
    await lease.renew();
    await told(world);
    const doubt = { from: began, until: began + 500 };
    expect(lost).toMatchObject([{ reason: "released", doubt, error: { details: { reason: "released", doubt } } }]);
    expect(lost[0]?.error.message).toMatch(/another claim had the worker ID before the window passed.*may exist twice/);
  });

  it("names all times that the registry doubts where they lie before its last answer", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    const began = world.clock.now();
    await world.clock.advance(1000);
    await lease.renew();
    // A copy of the process that was made earlier, and whose clock is behind.
    const { receipt: _, ...asked } = await sentNext(world, lease);
    await world.registry.release({ ...asked, nextTurn: "f".repeat(32), used: { until: began + 500 } });
    await lease.renew();
    await told(world);
    const until = began + 500;
    expect(lost).toMatchObject([{ reason: "released", doubt: { until } }]);
    expect(lost[0]?.doubt?.from).toBeLessThan(until);
  });

  it("says that an operator ended the claim", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    await world.registry.forceRelease({ namespace, workerId: 0, force: true });
    await lease.renew();
    await told(world);
    expect(lost).toMatchObject([{ reason: "released", doubt: undefined, error: { details: { reason: "released" } } }]);
    expect(lost[0]?.error.message).toContain("an operator ended the claim");
  });

  it("says that a copy of the process renewed it", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    await lease.renew();
    await world.registry.renew({ ...(await sentNext(world, lease)), nextTurn: "f".repeat(32) });
    await lease.renew();
    await told(world);
    expect(lost).toMatchObject([{ reason: "cloned", error: { details: { reason: "cloned" } } }]);
    expect(lost[0]?.error.message).toContain("a copy of this process has renewed it");
  });

  it("says that the registry went back in time, and which IDs are in doubt", async () => {
    const world = newWorld();
    const { registry } = world;
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    await lease.renew();
    const { receipt = "" } = await sentNext(world, lease);
    // The store that comes back does not know the claim: another holder has the fence, under another token.
    const other = memoryRegistry({ clock: world.clock });
    const [claimed = expect.fail()] = world.claims;
    const granted = await other.claim({ ...claimed, token: "e".repeat(32), window: 30_000 });
    const { id: namespaceId = "", era = "" } = (await other.describe(namespace)) ?? {};
    Object.assign(registry, {
      renew: (request: RenewRequest) => other.renew({ ...request, receipt: edited(receipt, { namespaceId, era }) }),
    });
    await lease.renew();
    await told(world);
    if (granted.outcome !== "granted") throw new Error("It is granted.");
    const doubt = { from: world.clock.now(), until: granted.until };
    expect(lost).toMatchObject([{ reason: "forgotten", doubt, error: { details: { reason: "forgotten", doubt } } }]);
    expect(lost[0]?.error.message).toMatch(/went back in time.*may exist twice: look for them with `snowlease audit/);
    expect(lost[0]?.error.message).not.toContain("\n");
  });

  it("claims another worker ID where it may, and names what it remembers of the lost one", async () => {
    const world = newWorld();
    const lease = await claim(world, { onLost: "switch" });
    await lease.renew();
    const { receipt } = await sentNext(world, lease);
    await world.registry.renew({ ...(await sentNext(world, lease)), nextTurn: "f".repeat(32) });
    await lease.renew();
    await world.clock.advance(0);
    expect(lease).toMatchObject({ state: "held", workerId: 1 });
    expect(world.claims.at(-1)?.recall).toBe(receipt);
    await lease.close();
  });
});

describe("what a holder sends", () => {
  it("is its newest receipt, and one turn until the answer comes", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const [first, again] = [await sentNext(world, lease), await sentNext(world, lease)];
    expect(first.receipt).toMatch(/^1\./);
    expect([again.turn, again.nextTurn, again.sentTurns]).toEqual([undefined, first.nextTurn, []]);
    await lease.renew();
    const second = await sentNext(world, lease);
    expect([second.turn, second.sentTurns]).toEqual([first.nextTurn, []]);
    expect(second.nextTurn).not.toBe(first.nextTurn);
    expect(second.receipt).not.toBe(first.receipt);
    await lease.close();
    expect(world.releases[0]).toMatchObject({ turn: second.turn, nextTurn: second.nextTurn, receipt: second.receipt });
  });

  it("stays the same in a quarantine", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await lease.renew();
    await goBack(world, lease);
    const before = await sentNext(world, lease);
    const waits = eventsOf(lease, "quarantine");
    expect(await lease.renew()).toBe(false);
    await told(world);
    expect(waits).toHaveLength(1);
    expect(await sentNext(world, lease)).toMatchObject({ turn: before.turn, nextTurn: before.nextTurn, sentTurns: [] });
    expect(lease.state).toBe("held");
    await lease.orphan();
  });

  it("names a turn of its own behind its window, and each that was sent", async () => {
    const world = newWorld();
    const lease = await claim(world);
    world.off = true;
    await lease.renew();
    await world.clock.advance(window + 5000);
    const turns = [...new Set(world.renewals.map(({ nextTurn }) => nextTurn))];
    expect(turns).toHaveLength(2);
    expect(world.renewals.at(-1)?.sentTurns).toEqual([turns[0]]);
    world.off = false;
    await lease.renew();
    expect(await sentNext(world, lease)).toMatchObject({ turn: turns[1], sentTurns: [] });
    await lease.orphan();
  });

  it("goes on when its first renewal was done and the answer was lost, also after another turn was drawn", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const request = await sentNext(world, lease);
    await world.registry.renew(request);
    world.off = true;
    await world.clock.advance(window + 5000);
    world.off = false;
    expect(await lease.renew()).toBe(true);
    expect(lease.state).toBe("held");
    await lease.close();
  });
});

describe("a holder that is told of a quarantine", () => {
  it.each(["wall", "lead"] as const)("makes no ID of a time before that, wherever its clock goes: %s", async (mode) => {
    const world = newWorld();
    const ids = new Snowflake(await claim(world, { leads: mode === "lead" }), { mode, rollback: { maxWait: 0 } });
    await world.clock.advance(5000);
    const told = world.clock.now();
    world.refusal = new SnowleaseError("QUARANTINE", "It went back in time.");
    expect(await ids.lease.renew()).toBe(false);
    world.clock.step(-3000);
    const made: number[] = [];
    for (let i = 0; i < 4000; i++) {
      await world.clock.advance(1);
      try {
        made.push(layouts.westid.decompose(ids.next()).timestamp);
      } catch (error) {
        expect(error).toBeInstanceOf(SnowleaseError);
      }
    }
    expect(made.length).toBeGreaterThan(0);
    expect(Math.min(...made)).toBeGreaterThanOrEqual(told);
    await ids.lease.orphan();
  });
});

describe("after a jump of the clock", () => {
  /** A generator that has made IDs, behind a jump that the lease has seen. */
  async function jumped(by: number): Promise<{ world: World; ids: Snowflake }> {
    const world = newWorld();
    const ids = new Snowflake(await claim(world));
    ids.next();
    await world.clock.advance(1100);
    world.clock.step(by);
    return { world, ids };
  }

  it("a give-back is not clean: the process may be a copy, and not know what the other one used before", async () => {
    const { world, ids } = await jumped(5000);
    const released = eventsOf(ids.lease, "released");
    await ids.close();
    await told(world);
    expect(released).toMatchObject([{ clean: false }]);
    expect(world.releases[0]?.used).toBeUndefined();
    expect(await world.registry.worker(namespace, 0)).toMatchObject({ state: "resting", clean: false });
  });

  it("a give-back is not clean, either, after a renewal: ticks that the other one used may lie before it", async () => {
    const { world, ids } = await jumped(5000);
    const jumps = eventsOf(ids.lease, "clock.jump");
    await world.clock.advance(1000);
    expect(jumps).toMatchObject([{ by: 5000 }]);
    expect(world.renewals).toHaveLength(1);
    ids.next();
    await ids.close();
    expect(world.releases[0]?.used).toBeUndefined();
  });

  it("amid a claim, a give-back is not clean: the first run of a copied process may have had the same grant", async () => {
    const world = newWorld();
    // Before the snapshot: the answer to the claim is lost.
    world.off = true;
    const claiming = claim(world);
    await world.clock.advance(10);
    world.clock.step(5000);
    world.off = false;
    await world.clock.advance(1000);
    const ids = new Snowflake(await claiming);
    expect(new Set(world.claims.map(({ token }) => token)).size).toBe(1);
    ids.next();
    await ids.close();
    expect(world.releases[0]?.used).toBeUndefined();
  });

  it("amid a claim whose caller has given up, the unused worker ID is not given back clean", async () => {
    const world = newWorld();
    world.off = true;
    const given = new AbortController();
    const { registry } = world;
    const claiming = claim(
      {
        ...world,
        registry: {
          ...registry,
          async claim(request) {
            const answer = await registry.claim(request);
            given.abort(new Error("The caller has given up."));
            return answer;
          },
        },
      },
      {},
      undefined,
      given.signal,
    );
    await world.clock.advance(10);
    world.clock.step(5000);
    world.off = false;
    const ended = claiming.catch((error: unknown) => error);
    await world.clock.advance(1000);
    expect(await ended).toMatchObject({ message: "The caller has given up." });
    expect(world.releases[0]?.used).toBeUndefined();
  });

  it("back, a give-back is clean: no copy is resumed before it was made", async () => {
    const { world, ids } = await jumped(-5000);
    await world.clock.advance(1000);
    await ids.close();
    expect(world.releases[0]?.used).toBeDefined();
  });

  it("the next renewal bears a turn of its own, once", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const before = await sentNext(world, lease);
    world.off = true;
    await world.clock.advance(1100);
    world.clock.step(5000);
    await world.clock.advance(3000);
    const turns = [...new Set(world.renewals.map(({ nextTurn }) => nextTurn))];
    expect(turns).toHaveLength(2);
    expect(turns[0]).toBe(before.nextTurn);
    await lease.orphan();
  });
});

describe("two copies of one lease", () => {
  it("do not both renew: the one that comes second is lost", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const lost = eventsOf(lease, "lost");
    await lease.renew();
    // The copy drew a turn of its own after it was resumed.
    const copy = { ...(await sentNext(world, lease)), nextTurn: "c".repeat(32) };
    expect(await lease.renew()).toBe(true);
    expect(await world.registry.renew(copy)).toEqual({ outcome: "lost", reason: "cloned" });
    expect(await lease.renew()).toBe(true);
    expect(lost).toEqual([]);
    await lease.close();
  });

  it("that were made before an answer came are told apart at the renewal after it", async () => {
    const world = newWorld();
    const lease = await claim(world);
    const both = await sentNext(world, lease);
    const answer = await world.registry.renew(both);
    // Both hear the answer of the renewal that both sent.
    expect(await lease.renew()).toBe(true);
    if (answer.outcome !== "renewed") throw new Error("It is renewed.");
    const copy = { ...both, turn: both.nextTurn, nextTurn: "c".repeat(32), receipt: answer.receipt };
    expect(await world.registry.renew(copy)).toMatchObject({ outcome: "renewed" });
    expect(await lease.renew()).toBe(false);
    expect(lease).toMatchObject({ state: "lost", signal: { reason: { details: { reason: "cloned" } } } });
  });

  it("do not both give back: the one that is out of turn changes nothing", async () => {
    const world = newWorld();
    const ids = new Snowflake(await claim(world));
    ids.next();
    await ids.lease.renew();
    const copy = await sentNext(world, ids.lease);
    await world.registry.renew({ ...copy, nextTurn: "c".repeat(32) });
    const before = await world.registry.worker(namespace, 0);
    const released = eventsOf(ids.lease, "released");
    await ids.close();
    await told(world);
    expect(released).toEqual([]);
    expect(await world.registry.worker(namespace, 0)).toEqual(before);
  });

  it("do not both claim: an old image does not get the renewed window", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await lease.renew();
    const [request] = world.claims;
    if (request === undefined) throw new Error("It has claimed.");
    expect(await world.registry.claim(request)).toEqual({ outcome: "lost", reason: "cloned" });
    await lease.close();
  });
});

describe("a suspended lease", () => {
  it("has given its worker ID back and makes nothing; the same generator goes on when it is resumed", async () => {
    const world = newWorld();
    const ids = new Snowflake(await claim(world));
    const made = [ids.next()];
    await ids.suspend();
    expect(ids.lease).toMatchObject({ state: "suspended", snapshot: undefined });
    expect(await world.registry.worker(namespace, 0)).toMatchObject({ state: "free", clean: true });
    expect(() => ids.next()).toThrow(SnowleaseError);
    await world.clock.advance(10 * window);
    expect(world.renewals).toEqual([]);
    await ids.resume();
    expect(ids.lease).toMatchObject({ state: "held", fence: 2 });
    expect(world.claims.at(-1)?.recall).toBeUndefined();
    made.push(ids.next(), ids.next());
    expect(new Set(made).size).toBe(3);
    await ids.close();
    expect(await world.registry.workers(namespace, { state: "live" })).toEqual([]);
  });

  it("is resumed by each copy under a worker ID of its own", async () => {
    const world = newWorld();
    const ids = new Snowflake(await claim(world));
    ids.next();
    await ids.suspend();
    const copy = new Snowflake(await claim(world));
    await ids.resume();
    expect(ids.lease.workerId).not.toBe(copy.lease.workerId);
    await Promise.all([ids.close(), copy.close()]);
  });

  it("may be suspended and resumed again, and closed; more than once changes nothing", async () => {
    const world = newWorld();
    let ends = 0;
    const lease = await claim(world, {}, async () => void ends++);
    await lease.resume();
    expect(world.claims).toHaveLength(1);
    for (let i = 0; i < 2; i++) {
      await Promise.all([lease.suspend(), lease.suspend()]);
      await Promise.all([lease.resume(), lease.resume()]);
      expect(lease.state).toBe("held");
    }
    expect([world.claims.length, world.releases.length]).toEqual([3, 2]);
    await lease.suspend();
    await lease.close();
    expect(lease.state).toBe("closed");
    expect(ends).toBe(1);
    await lease.suspend();
    await lease.resume();
    expect(lease.state).toBe("closed");
    expect(world.claims).toHaveLength(3);
  });

  it("is suspended although the registry does not answer; its window then rests", async () => {
    const world = newWorld();
    const ids = new Snowflake(await claim(world));
    ids.next();
    world.off = true;
    await expect(ids.suspend()).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(ids.lease.state).toBe("suspended");
    expect(() => ids.next()).toThrow(SnowleaseError);
    let resumed = false;
    const resuming = ids.resume().then(() => (resumed = true));
    await world.clock.advance(5000);
    expect([resumed, ids.lease.state]).toEqual([false, "switching"]);
    world.off = false;
    await world.clock.advance(2000);
    await resuming;
    expect(ids.lease).toMatchObject({ state: "held", workerId: 1 });
    // What was not given back is recalled: the registry may have forgotten it.
    expect(world.claims.at(-1)?.recall).toMatch(/^1\./);
    await ids.close();
  });

  it("waits for the worker ID that replaces a lost one, and gives that one back", async () => {
    const world = newWorld();
    const { registry } = world;
    const { claim: claimAtOnce } = registry;
    const lease = await claim(world, { onLost: "switch" });
    Object.assign(registry, {
      async claim(request: ClaimRequest) {
        const answer = await claimAtOnce(request);
        await world.clock.sleep(100);
        return answer;
      },
    });
    await registry.forceRelease({ namespace, workerId: 0, force: true });
    await lease.renew();
    expect(lease.state).toBe("switching");
    const suspending = lease.suspend();
    await world.clock.advance(100);
    await suspending;
    expect(lease.state).toBe("suspended");
    await lease.suspend();
    expect(await world.registry.workers(namespace, { state: "live" })).toEqual([]);
    await world.clock.advance(10 * window);
    expect(await world.registry.workers(namespace, { state: "live" })).toEqual([]);
    Object.assign(registry, { claim: claimAtOnce });
    await lease.resume();
    expect(lease.state).toBe("held");
    await lease.close();
  });

  it.each([
    ["goes on after a program error, which may be a driver's and pass", new TypeError("x is not a function"), "held"],
    ["is over where an operator has to act", new SnowleaseError("LAYOUT_MISMATCH", "Another layout."), "lost"],
  ] as const)("that claims again %s", async (_, refusal, state) => {
    const world = newWorld();
    const lease = await claim(world, { onLost: "switch" });
    await lease.suspend();
    world.refusal = refusal;
    const resuming = lease.resume();
    await world.clock.advance(500);
    world.refusal = undefined;
    await world.clock.advance(2000);
    await resuming;
    expect(lease.state).toBe(state);
    await lease.close();
  });

  it("that is closed while it claims again gives back what it gets", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await lease.suspend();
    world.off = true;
    const resuming = lease.resume();
    await world.clock.advance(1000);
    const closing = lease.close();
    world.off = false;
    await world.clock.advance(1000);
    await Promise.all([resuming, closing]);
    expect(lease.state).toBe("closed");
    await world.clock.advance(10 * window);
    expect(await world.registry.workers(namespace, { state: "live" })).toEqual([]);
  });

  it("that is closed while it gives back ends behind the answer", async () => {
    const world = newWorld();
    const { registry } = world;
    const order: string[] = [];
    const { release } = registry;
    Object.assign(registry, {
      async release(request: ReleaseRequest) {
        await world.clock.sleep(100);
        const answer = await release(request);
        order.push("released");
        return answer;
      },
    });
    const lease = await claim(world, {}, async () => void order.push("ended"));
    const suspending = lease.suspend();
    const closing = lease.close();
    await world.clock.advance(200);
    await Promise.all([suspending, closing]);
    expect(order).toEqual(["released", "ended"]);
  });

  it("that is resumed while it gives back claims behind the answer, and gets its worker ID again", async () => {
    const world = newWorld();
    const { registry } = world;
    const { release } = registry;
    Object.assign(registry, {
      async release(request: ReleaseRequest) {
        await world.clock.sleep(100);
        return release(request);
      },
    });
    const { lease } = new Snowflake(await claim(world));
    const suspending = lease.suspend();
    const resuming = lease.resume();
    await world.clock.advance(200);
    await Promise.all([suspending, resuming]);
    expect([lease.state, lease.workerId, lease.fence]).toEqual(["held", 0, 2]);
    // What was given back needs no recall.
    expect(world.claims.at(-1)?.recall).toBeUndefined();
    await lease.orphan();
  });

  it("that is suspended twice waits for the answer each time", async () => {
    const world = newWorld();
    const { release } = world.registry;
    Object.assign(world.registry, {
      async release(request: ReleaseRequest) {
        await world.clock.sleep(100);
        return release(request);
      },
    });
    const { lease } = new Snowflake(await claim(world));
    let ends = 0;
    const suspending = [lease.suspend(), lease.suspend()].map((end) => end.then(() => ends++));
    await world.clock.advance(99);
    expect(ends).toBe(0);
    await world.clock.advance(1);
    await Promise.all(suspending);
    expect(await world.registry.worker(namespace, 0)).toMatchObject({ state: "free" });
    await lease.close();
  });

  it("that is lost for good stays lost", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await world.registry.forceRelease({ namespace, workerId: 0, force: true });
    await lease.renew();
    await lease.suspend();
    await lease.resume();
    expect(lease.state).toBe("lost");
    expect(world.releases).toEqual([]);
  });
});

describe("a request for blocks", () => {
  const asked = { first: 0, spans: 1, blocks: 1, held: 0 };

  it("that a renewal overtook is refused once, and asked again with the present turns", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await lease.renew();
    const turns: (string | undefined)[] = [];
    Object.assign(world.registry, {
      async takeBlocks({ turn }: RenewRequest) {
        turns.push(turn);
        if (turns.length > 1) return { outcome: "taken", blocks: [1] };
        await lease.renew();
        return { outcome: "lost", reason: "cloned" };
      },
    });
    expect(await lease.takeBlocks(asked)).toEqual([1]);
    expect(turns).toEqual([world.renewals[0]?.nextTurn, world.renewals[1]?.nextTurn]);
    expect(world.renewals).toHaveLength(2);
    await lease.close();
  });

  it("that is refused without a renewal in between is not asked again; a renewal finds out why", async () => {
    const world = newWorld();
    const lease = await claim(world);
    let asks = 0;
    Object.assign(world.registry, {
      async takeBlocks() {
        asks++;
        return { outcome: "lost", reason: "cloned" };
      },
    });
    expect(await lease.takeBlocks(asked)).toBeUndefined();
    await told(world);
    expect([asks, world.renewals.length]).toEqual([1, 1]);
    await lease.close();
  });

  it("that is refused twice is given up", async () => {
    const world = newWorld();
    const lease = await claim(world);
    await lease.renew();
    let asks = 0;
    Object.assign(world.registry, {
      async takeBlocks() {
        asks++;
        await lease.renew();
        return { outcome: "lost", reason: "cloned" };
      },
    });
    expect(await lease.takeBlocks(asked)).toBeUndefined();
    expect(asks).toBe(2);
    await lease.close();
  });
});
