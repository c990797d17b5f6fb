import { once } from "node:events";
import { expect, test } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { AskedAddresses, type ListedRegistry, listedRegistry } from "../../src/registries/mixed-list.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";

const names = "members of one cluster";

/** A clock that a test moves. `isPatient`: no answer comes too late for it. */
function handClock(isPatient: boolean): Clock & { mono: number } {
  return {
    mono: 0,
    now: () => Date.now(),
    nanos() {
      return BigInt(this.mono) * 1_000_000n;
    },
    // A claim waits for late answers without keeping the process alive.
    sleep: async (_, { keepAlive = true } = {}) =>
      isPatient && !keepAlive ? new Promise(() => undefined) : Promise.resolve(),
  };
}

/** A promise that a test keeps. */
function gated(): { readonly promise: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open };
}

interface Listed extends ListedRegistry {
  asked: number;
  closed: number;
}

/** An address of a store. `answer`: what an answer waits for. */
function listed(address: string, store: Registry, answer: Promise<unknown> = Promise.resolve()): Listed {
  const counted: Listed = {
    address,
    asked: 0,
    closed: 0,
    async open() {
      counted.asked++;
      return {
        ...store,
        describe: async (namespace) => {
          await answer;
          return store.describe(namespace);
        },
        close: async () => void counted.closed++,
      };
    },
  };
  return counted;
}

test.each(["both have the namespace", "the other one has it not", "neither has it"])(
  "a list of two stores is refused by both addresses, where %s, and nothing stays claimed",
  async (where) => {
    const [a, b] = [memoryRegistry(), memoryRegistry()];
    const { namespace, layout } = claimRequest();
    if (where !== "neither has it") await a.init({ namespace, layout });
    if (where === "both have the namespace") await b.init({ namespace, layout });
    for (const store of [a, b]) {
      const registry = listedRegistry(store, { names, all: [listed("h1:1", a), listed("h2:2", b)] }, handClock(true));
      await expect(registry.claim(claimRequest())).rejects.toMatchObject({
        code: "CONFIG_INVALID",
        message: expect.stringMatching(/h1:1 and h2:2|h2:2 and h1:1/) as string,
      });
      await expect(registry.claim(claimRequest())).rejects.toThrow(`name only ${names}.`);
      expect(await store.workers(namespace, { state: "live" })).toEqual([]);
    }
  },
);

test("a list of one store is compared once a minute, or once a second while an address is silent", async () => {
  const store = memoryRegistry();
  const clock = handClock(true);
  const all = [listed("h1:1", store), listed("h2:2", store)];
  const registry = listedRegistry(store, { names, all }, clock);
  const asked = async (mono: number): Promise<number[]> => {
    clock.mono = mono;
    await granted(registry, claimRequest());
    return all.map((each) => each.asked);
  };
  expect(await asked(0)).toEqual([1, 1]);
  expect(await asked(59_999)).toEqual([1, 1]);
  expect(await asked(60_000)).toEqual([2, 2]);
  const silent = listed("h3:3", { ...store, describe: () => Promise.reject(new Error("silent")) });
  const partly = listedRegistry(store, { names, all: [...all, silent] }, clock);
  await granted(partly, claimRequest());
  clock.mono += 999;
  await granted(partly, claimRequest());
  expect(silent.asked).toBe(1);
  clock.mono += 1;
  await granted(partly, claimRequest());
  expect(silent.asked).toBe(2);
  for (const { closed, asked } of [...all, silent]) expect(closed).toBe(asked);
});

test("claims that wait for a free worker ID compare once a minute, too", async () => {
  const store = memoryRegistry();
  const pool = { first: 0, last: 0 };
  await granted(store, claimRequest({ pool, window: 60_000 }));
  const all = [listed("h1:1", store), listed("h2:2", store)];
  const registry = listedRegistry(store, { names, all }, handClock(true));
  for (let i = 0; i < 3; i++) expect((await registry.claim(claimRequest({ pool }))).outcome).toBe("exhausted");
  expect(all.map(({ asked }) => asked)).toEqual([1, 1]);
});

test("an answer that comes late ends the lease at its next renewal, and refuses the next claim", async () => {
  const [a, b] = [memoryRegistry(), memoryRegistry()];
  const request = claimRequest();
  await b.init({ namespace: request.namespace, layout: request.layout });
  const gate = gated();
  const all = [listed("h1:1", a), listed("h2:2", b, gate.promise)];
  const registry = listedRegistry(a, { names, all }, handClock(false));
  const key = keyOf(request, await granted(registry, request));
  const renewal = (): Parameters<Registry["renew"]>[0] => ({ ...key, clock: Date.now(), window: 2000 });
  expect(await registry.renew(renewal())).toMatchObject({ outcome: "renewed" });
  const warned = once(process, "warning");
  gate.open();
  expect(await warned).toMatchObject([{ code: "SNOWLEASE_MIXED_LIST" }]);
  expect(await registry.renew(renewal())).toEqual({ outcome: "lost", reason: "forgotten" });
  await expect(registry.claim(claimRequest())).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});

test("questions under way are shared, and end with the registry", async () => {
  const store = memoryRegistry();
  const gate = gated();
  const one = listed("h1:1", store, gate.promise);
  const asked = new AskedAddresses([one]);
  const answers = Promise.all([asked.ask(0, "orders"), asked.ask(0, "orders")]);
  // It is open by then.
  await Promise.resolve();
  await Promise.resolve();
  await asked.close();
  expect([one.asked, one.closed]).toEqual([1, 1]);
  gate.open();
  expect(await answers).toEqual([null, null]);
  expect(await asked.ask(0, "orders")).toBeUndefined();
});
