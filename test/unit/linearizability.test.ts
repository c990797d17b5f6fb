import { describe, expect, test } from "vitest";
import { findOrder, type Operation } from "../../prove/linearizability.ts";
import { checkOrder } from "../../prove/order.ts";
import type { Asked, Call } from "../../prove/sequential.ts";
import type { ClaimRequest, Grant, RenewRequest, Renewal } from "../../src/rule/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";

describe("the search for one order", () => {
  const set = (value: number, asked: number, answered: number): Operation<number> => ({
    asked,
    answered,
    next: () => [value],
  });
  const get = (value: number, asked: number, answered: number): Operation<number> => ({
    asked,
    answered,
    next: (state) => (state === value ? [state] : []),
  });
  const unheard = (value: number, asked: number, atMost = 1): Operation<number> => ({
    ...set(value, asked, Infinity),
    atMost,
  });
  const outcomeOf = (operations: readonly Operation<number>[], limit = 1000): string =>
    findOrder(operations, 0, String, limit).outcome;

  test("is the real order if calls do not overlap", () => {
    expect(outcomeOf([])).toBe("ordered");
    expect(outcomeOf([set(1, 0, 1), get(1, 2, 3)])).toBe("ordered");
    expect(outcomeOf([set(1, 0, 1), get(0, 2, 3)])).toBe("none");
    expect(outcomeOf([set(1, 0, 1), set(2, 2, 3), get(1, 4, 5)])).toBe("none");
  });

  test("is any order if they do", () => {
    expect(outcomeOf([set(1, 0, 5), get(0, 1, 2), get(1, 3, 4)])).toBe("ordered");
    expect(outcomeOf([set(1, 0, 5), get(1, 1, 2), get(0, 3, 4)])).toBe("none");
    expect(outcomeOf([set(1, 0, 5), set(2, 0, 5), get(2, 1, 2), get(1, 3, 6)])).toBe("ordered");
  });

  test("has an unanswered call at any later time, or never, and no more often than possible", () => {
    expect(outcomeOf([unheard(1, 0), get(0, 1, 2), get(1, 3, 4)])).toBe("ordered");
    expect(outcomeOf([unheard(1, 0), get(0, 1, 2), get(0, 3, 4)])).toBe("ordered");
    expect(outcomeOf([get(1, 0, 1), unheard(1, 2)])).toBe("none");
    const twice = [get(1, 1, 2), set(2, 3, 4), get(1, 5, 6)];
    expect(outcomeOf([unheard(1, 0), ...twice])).toBe("none");
    expect(outcomeOf([unheard(1, 0, 2), ...twice])).toBe("ordered");
    expect(outcomeOf([unheard(1, 0, Infinity), ...twice])).toBe("ordered");
  });

  test("has a repeated request before the answer, and not after it", () => {
    const answered = set(2, 0, 3);
    const again = { ...unheard(1, 0), before: answered };
    expect(outcomeOf([answered, again, get(1, 1, 2)])).toBe("ordered");
    expect(outcomeOf([answered, again, get(1, 4, 5)])).toBe("none");
  });

  test("is given up after a limit of steps", () => {
    const many = Array.from({ length: 12 }, (_, i) => set(i, 0, 9));
    expect(outcomeOf([...many, get(99, 0, 9)], 50)).toBe("undecided");
    expect(outcomeOf([...many, get(99, 0, 9)], 1_000_000)).toBe("none");
  });
});

describe("calls of a registry", () => {
  const start = 1_700_000_000_000;

  /** A registry, and the calls of its holders, each a moment after the last. */
  function recorded() {
    const clock = fakeClock({ start });
    const registry = memoryRegistry({ clock });
    const calls: Call[] = [];
    const note = (what: Asked, more: Partial<Call> = {}): Call => {
      const at = 2 * calls.length;
      const answered = what.answer === undefined ? Infinity : at + 1;
      const call = { ...what, caller: "a", asked: at, answered, waited: 0, ...more } as Call;
      calls.push(call);
      return call;
    };
    const claim = async (token: string): Promise<Grant> => {
      const holder = { host: "a", ip: "", pid: 1, instance: "" };
      const limits = { maxWindow: 10_000, maxClockSkew: 1000 };
      const terms = { namespace: "n", pool: { first: 0, last: 0 }, window: 4000, layout: "41-10-12@0", limits };
      const request: ClaimRequest = { ...terms, token: token.repeat(32), holder, clock: clock.now() };
      const answer = (await registry.claim(request)) as Grant;
      note({ method: "claim", request, answer });
      return answer;
    };
    const renewal = (token: string, { workerId, fence }: Grant, nextTurn: string, turn?: string): RenewRequest => ({
      namespace: "n",
      workerId,
      fence,
      token: token.repeat(32),
      clock: clock.now(),
      window: 4000,
      turn,
      nextTurn,
    });
    const renew = async (request: RenewRequest): Promise<Renewal> => {
      const answer = (await registry.renew(request)) as Renewal;
      note({ method: "renew", request, answer });
      return answer;
    };
    const release = async (token: string, { workerId, fence }: Grant, until: number): Promise<void> => {
      const key = { namespace: "n", workerId, fence, token: token.repeat(32) };
      const request = { ...key, clock: clock.now(), turn: "t1", used: { until } };
      const answer = await registry.release(request);
      note({ method: "release", request, answer });
    };
    return { clock, registry, calls, note, claim, renewal, renew, release };
  }

  test("have an order if the registry does what it answers", async () => {
    const { clock, calls, claim, renewal, renew, release } = recorded();
    const grant = await claim("a");
    await clock.advance(1000);
    const { until } = await renew(renewal("a", grant, "t1"));
    expect(await renew(renewal("a", grant, "t1"))).toMatchObject({ until });
    await clock.advance(1000);
    await release("a", grant, clock.now());
    await claim("b");
    expect(checkOrder(calls)).toEqual({ calls: 5, findings: [], undecided: [] });
  });

  test("have none if a release or a renewal was answered but not done", async () => {
    for (const method of ["release", "renew"] as const) {
      const { clock, calls, note, claim, renewal, renew } = recorded();
      const grant = await claim("a");
      await clock.advance(1000);
      await renew(renewal("a", grant, "t1"));
      const { workerId, fence } = grant;
      const key = { namespace: "n", workerId, fence, token: "a".repeat(32), clock: clock.now(), turn: "t1" };
      if (method === "release") {
        note({ method, request: { ...key, used: { until: clock.now() } }, answer: { outcome: "released" } });
      } else {
        const told = { from: grant.from, until: clock.now() + 4500, clock: clock.now() + 500, turn: "t2" };
        note({ method, request: { ...key, nextTurn: "t2", window: 4000 }, answer: { outcome: "renewed", ...told } });
      }
      await clock.advance(4001);
      await claim("b");
      const { findings } = checkOrder(calls);
      expect(findings).toHaveLength(1);
      expect(findings[0]).toMatch(
        /^the calls on worker 0 have no order\. After[^]*none of these fits:\n {4}a, \d+ to \d+: claim/,
      );
    }
  });

  test("without an answer may have been done, and then show in later answers", async () => {
    const { clock, registry, calls, note, claim, renewal } = recorded();
    const grant = await claim("a");
    await clock.advance(2000);
    const unheard = renewal("a", grant, "t1");
    await registry.renew(unheard);
    await clock.advance(4000);
    // Its window begins where the window of that renewal ended.
    const { from } = await claim("b");
    expect(from).toBe(start + 6000);
    expect(checkOrder(calls).findings).toHaveLength(1);
    note({ method: "renew", request: unheard }, { asked: 1 });
    expect(checkOrder(calls).findings).toEqual([]);
  });

  test("may have waited in the registry while the caller's clock went on, no longer than they took", async () => {
    const { clock, calls, claim } = recorded();
    await clock.advance(5000);
    await claim("a");
    const [call] = calls as [Extract<Call, { method: "claim" }>];
    // As far apart as tolerated, and half a second more.
    const request = { ...call.request, clock: call.request.clock - 1500 };
    expect(checkOrder([{ ...call, request, waited: 500 }]).findings).toEqual([]);
    expect(checkOrder([{ ...call, request, waited: 499 }]).findings).toHaveLength(1);
  });

  test("without an answer may be claims, which the fence reveals", async () => {
    const { clock, calls, note, claim } = recorded();
    await claim("a");
    await clock.advance(4001);
    await claim("b");
    const unheard = calls.pop();
    await clock.advance(8001);
    await claim("c");
    expect(checkOrder(calls).findings).toHaveLength(1);
    note({ method: "claim", request: unheard?.request as ClaimRequest }, { asked: 1 });
    expect(checkOrder(calls).findings).toEqual([]);
  });
});
