import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Etcd, etcdMissing, openEtcd } from "../support/etcd.ts";
import { patience } from "../support/patience.ts";
import { RequestCounter } from "../support/request-counter.ts";

const pool = { first: 0, last: 9 };
const window = 60_000;

describe.skipIf(etcdMissing !== undefined)(etcdMissing ?? "round trips to etcd", () => {
  let server: Etcd;
  let counter: RequestCounter;
  let registry: Registry;
  let namespace: string;
  let tests = 0;

  beforeAll(async () => {
    server = await Etcd.start();
    counter = await RequestCounter.start(server.first.port);
    registry = await openEtcd(`etcd://127.0.0.1:${counter.port}`, patience);
  }, patience);
  afterAll(async () => {
    await registry.close();
    counter.stop();
    await server.remove();
  });
  beforeEach(async () => {
    namespace = `n${++tests}`;
    await registry.init({ namespace, layout: defaultLayout.fingerprint, new: true });
    await used("before");
  });

  const ask = (host: string, wish: Partial<ClaimRequest> = {}): ClaimRequest =>
    claimRequest({ namespace, pool, window, holder: { host, ip: "10.0.0.1", pid: 1, instance: "" }, ...wish });

  /** Claims a number and gives it back. */
  async function used(host: string): Promise<void> {
    const request = ask(host);
    const grant = await granted(registry, request);
    await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
  }

  /** How a claim is answered, and in how many round trips. */
  async function claimed(request: ClaimRequest): Promise<readonly [outcome: string, trips: number]> {
    let outcome = "";
    const trips = await counter.of(async () => ({ outcome } = await registry.claim(request)));
    return [outcome, trips];
  }

  async function take(...workerIds: readonly number[]): Promise<void> {
    for (const workerId of workerIds) await granted(registry, ask(`other-${workerId}`, { workerId }));
  }

  test.each([
    { label: "of an unused number", taken: [], wish: {}, expected: ["granted", 3] },
    { label: "of the oldest number", taken: [1, 2, 3, 4, 5, 6, 7, 8, 9], wish: {}, expected: ["granted", 5] },
    { label: "of its host's number", taken: [1], wish: { host: "before" }, expected: ["granted", 3] },
    { label: "of a number by its name", taken: [1], wish: { workerId: 7 }, expected: ["granted", 2] },
    { label: "of a number that is held", taken: [1], wish: { workerId: 1 }, expected: ["held", 1] },
    {
      label: "from a pool that is exhausted",
      taken: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
      wish: {},
      expected: ["exhausted", 4],
    },
  ])("a claim $label", async ({ taken, wish: { host = "mine", ...wish }, expected }) => {
    await take(...taken);
    expect(await claimed(ask(host, wish))).toEqual(expected);
  });

  test("a claim that is repeated, a renewal, a release", async () => {
    const request = ask("mine");
    const key = keyOf(request, await granted(registry, request));
    expect(await claimed(request)).toEqual(["granted", 2]);
    expect(await counter.of(() => registry.renew({ ...key, clock: Date.now(), window }))).toBe(2);
    expect(await counter.of(() => registry.release({ ...key, clock: Date.now() }))).toBe(2);
  });
});
