import { beforeEach, describe, expect, it } from "vitest";
import { type Claim, claimWorkerId } from "../../src/lease/claim.ts";
import { freshToken } from "../../src/lease/turns.ts";
import { refusalError } from "../../src/lease/lease-errors.ts";
import { isSnowleaseError, SnowleaseError } from "../../src/id/errors.ts";
import { layouts } from "../../src/id/layout.ts";
import type { LeaseOptions } from "../../src/lease/lease.ts";
import type { Grant, Refusal, Registry } from "../../src/rule/registry.ts";
import { type FakeClock, fakeClock, lossyRegistry, memoryRegistry, type RegistryCall } from "../../src/testing.ts";

const namespace = "orders";
const holder = { host: "alpha", ip: "192.0.2.1", pid: 4711, instance: "" };
const other = { host: "beta", ip: "192.0.2.2", pid: 1, instance: "" };

let clock: FakeClock;
let registry: Registry;
/** Tokens made so far. */
let tokens: string[];

beforeEach(() => {
  clock = fakeClock();
  registry = memoryRegistry({ clock });
  tokens = [];
  waits = [];
});

function makeToken(): string {
  tokens.push(tokens.length.toString(16).padStart(32, "0"));
  return tokens.at(-1) ?? "";
}

/** A claim under way, and what becomes of it. */
interface Attempt {
  settled: Claim | SnowleaseError | undefined;
}

/** The waits that claims began, as they were told. */
let waits: [workerId: number, opens: number, wait: number][];

function attempt(options: Partial<LeaseOptions> = {}, on: Registry = registry, signal?: AbortSignal): Attempt {
  const pool = { first: 0, last: 0 };
  const times = { window: 1000, claimTimeout: 0, maxWait: 500, operationTimeout: 5000 };
  const modes = { reuse: "any", onLost: "stop" } as const;
  const all = { namespace, layout: layouts.westid, pool, holder, ...times, ...modes, ...options };
  const made: Attempt = { settled: undefined };
  const onWait = (...wait: (typeof waits)[number]): void => void waits.push(wait);
  claimWorkerId({ registry: on, clock, makeToken, onWait }, all, signal).then(
    (claim) => (made.settled = claim),
    (error: SnowleaseError) => (made.settled = error),
  );
  return made;
}

/** The error that the claim has come to by now. */
function errorOf({ settled }: Attempt): SnowleaseError {
  if (isSnowleaseError(settled)) return settled;
  throw new Error(`Expected a refusal, got ${JSON.stringify(settled)}.`);
}

/** The grant that the claim has come to by now. */
function grantOf({ settled }: Attempt): Grant {
  if (settled !== undefined && !(settled instanceof Error)) return settled.grant;
  throw new Error(`Expected a grant, got ${settled}.`);
}

async function granted(options: Partial<LeaseOptions> = {}): Promise<{ claim: Claim; grant: Grant }> {
  const made = attempt(options);
  await clock.advance(0);
  const grant = grantOf(made);
  return { claim: made.settled as Claim, grant };
}

describe("a claim that looks like one of a clock that was set back", () => {
  it("is asked once more, with the clock as it is then: the request may have been long under way", async () => {
    const clocks: number[] = [];
    const slow: Registry = {
      ...registry,
      async claim(request) {
        clocks.push(request.clock);
        if (clocks.length > 1) return registry.claim(request);
        clock.step(800);
        return { outcome: "rollback", workerId: 7, behind: 800, freeAt: clock.now() + 1000, clock: clock.now() };
      },
    };
    const made = attempt({ workerId: 7, pool: { first: 0, last: 9 } }, slow);
    await clock.advance(0);
    expect(grantOf(made).workerId).toBe(7);
    expect(clocks).toEqual([clock.now() - 800, clock.now()]);
  });

  it("is refused when it still does", async () => {
    const answer: Refusal = {
      outcome: "rollback",
      workerId: 7,
      behind: 800,
      freeAt: clock.now() + 9,
      clock: clock.now(),
    };
    const made = attempt({ workerId: 7, claimTimeout: 5000 }, { ...registry, claim: async () => answer });
    await clock.advance(0);
    expect(errorOf(made).code).toBe("CLOCK_ROLLBACK");
  });
});

describe("a claim that can be granted", () => {
  it("comes with its token, and with the times before the request and after the answer", async () => {
    await clock.advance(250);
    const [wall, nanos] = [clock.now(), clock.nanos()];
    const { claim, grant } = await granted();
    expect(tokens).toHaveLength(1);
    const token = freshToken({ ...clock, now: () => wall, nanos: () => nanos }, tokens[0] ?? "");
    expect(claim).toEqual({ grant, token, asked: 250, since: clock.now(), hasWaited: false, hasJumped: false });
  });
});

describe("a window that opens later than it is granted", () => {
  const maxClockSkew = 10_000;

  /** Pins the worker ID for its host, so that its window opens later; when. */
  async function pinned(): Promise<number> {
    await registry.init({ namespace, layout: layouts.westid.fingerprint, maxClockSkew });
    await registry.pin(namespace, 0, "kept", { ip: holder.ip });
    return clock.now() + maxClockSkew;
  }

  it("is waited for, and that is told once", async () => {
    const opens = await pinned();
    const made = attempt({ openTimeout: maxClockSkew });
    await clock.advance(maxClockSkew - 1);
    expect(made.settled).toBeUndefined();
    await clock.advance(1);
    expect(grantOf(made).from).toBe(opens);
    expect(made.settled).toMatchObject({ since: opens, hasWaited: true });
    expect(waits).toEqual([[0, opens, maxClockSkew]]);
  });

  it("is waited for to its end where the clock is set back meanwhile", async () => {
    const opens = await pinned();
    const made = attempt({ openTimeout: maxClockSkew });
    await clock.advance(5000);
    clock.step(-3000);
    await clock.advance(5000);
    expect(made.settled).toBeUndefined();
    await clock.advance(3000);
    expect([grantOf(made).from, clock.now(), waits.length]).toEqual([opens, opens, 1]);
  });

  it("is not waited for where that would not do", async () => {
    const opens = await pinned();
    const made = attempt({ openTimeout: maxClockSkew - 1 });
    await clock.advance(0);
    expect(grantOf(made).from).toBe(opens);
    expect([made.settled, waits]).toMatchObject([{ hasWaited: false }, []]);
  });

  it("is waited for within `claimTimeout` where nothing else is said", async () => {
    await pinned();
    const made = attempt({ claimTimeout: maxClockSkew });
    await clock.advance(maxClockSkew);
    expect(made.settled).toMatchObject({ hasWaited: true });
  });

  it("is waited for anew where the wait was broken off: the host may have run its old program in between", async () => {
    const opens = await pinned();
    const stop = new AbortController();
    const first = attempt({ openTimeout: maxClockSkew }, registry, stop.signal);
    await clock.advance(1000);
    stop.abort(new Error("enough"));
    await clock.advance(0);
    expect(first.settled).toEqual(new Error("enough"));
    const next = attempt({ openTimeout: maxClockSkew });
    await clock.advance(maxClockSkew);
    expect(grantOf(next)).toMatchObject({ workerId: 0, fence: 2, from: opens + 1000 });
  });
});

describe("a claim that is refused", () => {
  it("throws at once when it may not wait", async () => {
    await granted();
    const refused = attempt();
    await clock.advance(0);
    expect(errorOf(refused).code).toBe("POOL_EXHAUSTED");
    expect(errorOf(refused).details.retryAfterMs).toBe(1000);
  });

  it("waits up to `claimTimeout`, and gets the worker ID when its window has passed", async () => {
    const first = await granted();
    const waiting = attempt({ claimTimeout: 5000 });
    await clock.advance(999);
    expect(waiting.settled).toBeUndefined();
    await clock.advance(1);
    expect(grantOf(waiting).from).toBe(first.grant.until);
  });

  it("gets the worker ID earlier when it is given back", async () => {
    const { claim, grant } = await granted({ window: 60_000 });
    const waiting = attempt({ claimTimeout: 30_000 });
    await clock.advance(900);
    const { workerId, fence, from } = grant;
    const key = { namespace, workerId, fence, token: claim.token };
    await registry.release({ ...key, clock: clock.now(), used: { until: from } });
    await clock.advance(200);
    expect(grantOf(waiting).fence).toBe(fence + 1);
  });

  it("throws what it was refused with when `claimTimeout` is over, and not before", async () => {
    await granted({ window: 60_000 });
    const waiting = attempt({ claimTimeout: 3000 });
    await clock.advance(2999);
    expect(waiting.settled).toBeUndefined();
    await clock.advance(1);
    expect(errorOf(waiting).code).toBe("POOL_EXHAUSTED");
    expect(errorOf(waiting).details.retryAfterMs).toBe(57_000);
  });

  it("does not wait where none will ever come free", async () => {
    await registry.init({ namespace, layout: layouts.westid.fingerprint });
    await registry.pin(namespace, 0, "kept");
    for (const options of [{}, { workerId: 0 }]) {
      const refused = attempt({ ...options, claimTimeout: 5000 });
      await clock.advance(0);
      expect(errorOf(refused).details.retryAfterMs).toBeUndefined();
    }
  });

  it("waits for a clock that is behind by at most `maxWait`", async () => {
    await granted({ workerId: 0 });
    clock.step(-400);
    const near = attempt({ workerId: 0, claimTimeout: 10_000, maxWait: 400 });
    const far = attempt({ workerId: 0, claimTimeout: 10_000, maxWait: 399 });
    await clock.advance(0);
    expect(errorOf(far)).toMatchObject({ code: "CLOCK_ROLLBACK", details: { behindMs: 400, retryAfterMs: 1400 } });
    expect(near.settled).toBeUndefined();
    await clock.advance(1400);
    expect(grantOf(near).workerId).toBe(0);
  });

  it("throws at once what waiting does not mend", async () => {
    await granted();
    const twitter = attempt({ layout: layouts.twitter, claimTimeout: 5000 });
    const long = attempt({ window: 600_001, claimTimeout: 5000 });
    await clock.advance(0);
    expect(errorOf(twitter).code).toBe("LAYOUT_MISMATCH");
    expect(errorOf(long).code).toBe("CONFIG_INVALID");
  });

  it("throws the signal's reason when it is aborted while it waits", async () => {
    await granted({ window: 60_000 });
    const controller = new AbortController();
    const waiting = attempt({ claimTimeout: 30_000 }, registry, controller.signal);
    await clock.advance(500);
    controller.abort(new Error("enough"));
    await clock.advance(0);
    expect(waiting.settled).toEqual(new Error("enough"));
  });
});

describe("a claim whose answer is lost", () => {
  /** Loses the first so many claims, one way or the other. */
  function losing(count: number, what: "request" | "reply"): { lossy: Registry; calls: RegistryCall[] } {
    const calls: RegistryCall[] = [];
    const lose = (call: RegistryCall): "request" | "reply" | undefined =>
      calls.push(call) <= count ? what : undefined;
    return { lossy: lossyRegistry(registry, { lose }), calls };
  }

  it.each(["request", "reply"] as const)("asks again with the same token: %s", async (what) => {
    const { lossy, calls } = losing(3, what);
    const made = attempt({ pool: { first: 0, last: 9 } }, lossy);
    await clock.advance(1000);
    expect(grantOf(made)).toMatchObject({ workerId: 0, fence: 1 });
    expect(tokens).toHaveLength(1);
    const asked = calls.map(({ method, args: [request] }) => [method, (request as { token?: string }).token]);
    expect(asked).toEqual(Array.from({ length: 4 }, () => ["claim", expect.stringMatching(/^[\da-f]{32}$/)]));
    expect(new Set(asked.map(([, token]) => token)).size).toBe(1);
    expect(await registry.workers(namespace)).toHaveLength(1);
    expect(await registry.history(namespace, 0)).toHaveLength(1);
  });

  it("counts its window from before the request that was answered", async () => {
    const { lossy } = losing(1, "reply");
    const made = attempt({}, lossy);
    await clock.advance(1000);
    expect((made.settled as Claim).asked).toBeGreaterThan(0);
    expect((made.settled as Claim).since - 1_700_000_000_000).toBe((made.settled as Claim).asked);
  });

  it("asks once where somebody has to mend something first", async () => {
    let asked = 0;
    const damaged: Registry = {
      ...registry,
      async claim() {
        asked++;
        throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The file is damaged.", { lasting: true });
      },
    };
    const made = attempt({ claimTimeout: 60_000 }, damaged);
    await clock.advance(0);
    expect([errorOf(made).message, asked]).toEqual(["The file is damaged.", 1]);
  });

  it("gives up after `operationTimeout`, or `claimTimeout` when that is longer", async () => {
    for (const [operationTimeout, claimTimeout] of [
      [2000, 0],
      [100, 2000],
    ] as const) {
      const { lossy, calls } = losing(Infinity, "request");
      const made = attempt({ operationTimeout, claimTimeout }, lossy);
      await clock.advance(500);
      expect(made.settled).toBeUndefined();
      await clock.advance(1500);
      expect(errorOf(made).code).toBe("REGISTRY_UNAVAILABLE");
      expect(calls.length).toBeLessThan(12);
    }
  });

  it("takes a driver's own error for a lost answer", async () => {
    let broken = true;
    const failing: Registry = {
      ...registry,
      claim: (request) => (broken ? Promise.reject(new Error("ECONNRESET")) : registry.claim(request)),
    };
    const made = attempt({ operationTimeout: 1000 }, failing);
    await clock.advance(100);
    broken = false;
    await clock.advance(200);
    expect(grantOf(made).workerId).toBe(0);
  });

  it("asks again after a program error, which may be a driver's and pass, and tells it as one", async () => {
    let asked = 0;
    const cause = new TypeError("Cannot read properties of undefined (reading 'x')");
    const broken: Registry = { ...registry, claim: () => (asked++, Promise.reject(cause)) };
    const made = attempt({ operationTimeout: 1000 }, broken);
    await clock.advance(1000);
    expect(errorOf(made)).toMatchObject({ code: "DEFECT", retryable: false, cause });
    expect(asked).toBeGreaterThan(1);
  });

  it("waits out a quarantine only as long as `claimTimeout`", async () => {
    const quarantine = (): Promise<never> => Promise.reject(new SnowleaseError("QUARANTINE", "Not yet."));
    const closed: Registry = { ...registry, claim: quarantine };
    const impatient = attempt({}, closed);
    const patient = attempt({ claimTimeout: 3000 }, closed);
    await clock.advance(1000);
    expect(errorOf(impatient).code).toBe("QUARANTINE");
    expect(patient.settled).toBeUndefined();
    // Its last sleep ends a fraction of a ms later.
    await clock.advance(2001);
    expect(errorOf(patient).code).toBe("QUARANTINE");
  });
});

describe("the message of a refusal", () => {
  const now = 1_700_000_000_000;
  const pool = { first: 512, last: 515 };
  const common = { workerId: 7, holder: other, since: now - 5000, clock: now };

  const cases: [Refusal, code: string, message: string, retryAfterMs: number | undefined][] = [
    [
      { outcome: "exhausted", pool, freeAt: now + 300, clock: now },
      "POOL_EXHAUSTED",
      "No worker ID from 512 to 515 of namespace `orders` is free; the first may come free in 300 ms: try again then, or use a larger pool.",
      300,
    ],
    [
      { outcome: "exhausted", pool, clock: now },
      "POOL_EXHAUSTED",
      "No worker ID from 512 to 515 of namespace `orders` is free, and none will come free by itself; use a larger pool.",
      undefined,
    ],
    [
      { outcome: "held", live: true, freeAt: now + 60_000, ...common },
      "WORKER_ID_HELD",
      "Worker 7 of namespace `orders` is held by beta (192.0.2.2), pid 1, since 2023-11-14T22:13:15.000Z; let the registry pick a number, or stop that process.",
      60_000,
    ],
    [
      { outcome: "held", live: false, freeAt: now + 300, ...common },
      "WORKER_ID_HELD",
      "Worker 7 of namespace `orders` rests for another 300 ms after beta (192.0.2.2), pid 1, since 2023-11-14T22:13:15.000Z; try again then, or let the registry pick a number.",
      300,
    ],
    [
      { outcome: "rollback", workerId: 7, behind: 900, freeAt: now + 1200, clock: now },
      "CLOCK_ROLLBACK",
      "The clock was set back by 900 ms since worker 7 of namespace `orders` was last used here; it comes free in 2 s: wait, set the clock, or let the registry pick a number.",
      1200,
    ],
    [
      { outcome: "pinned", workerId: 7, reason: "kept", clock: now },
      "WORKER_ID_HELD",
      "Worker 7 of namespace `orders` is pinned (kept); ask for another one, or unpin it.",
      undefined,
    ],
  ];

  it.each(cases)("$outcome", (refusal, code, message, retryAfterMs) => {
    const error = refusalError(refusal, namespace, now);
    expect([error.code, error.message, error.details.retryAfterMs]).toEqual([code, message, retryAfterMs]);
    expect(error.details).toMatchObject({ namespace, refusal });
  });

  it("counts what remains from the clock that is behind, and never says 0", () => {
    const at = (holders: number, registrys: number): number | undefined =>
      refusalError({ outcome: "exhausted", pool, freeAt: now, clock: registrys }, namespace, holders).details
        .retryAfterMs;
    expect(at(now - 200, now - 100)).toBe(200);
    expect(at(now - 100, now - 200)).toBe(200);
    expect(at(now + 5, now + 5)).toBe(1);
  });

  it("is one line, whatever a reason holds", () => {
    const { message } = refusalError({ outcome: "pinned", workerId: 7, reason: "a\nb", clock: now }, namespace, now);
    expect(message).toContain("(a b)");
  });
});
