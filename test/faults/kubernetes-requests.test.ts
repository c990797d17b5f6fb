import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { LeaseNames } from "../../src/registries/kubernetes/objects.ts";
import type { ClaimRequest, Registry, WorkerRecord } from "../../src/rule/registry.ts";
import { ApiProxy } from "../support/api-proxy.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Kubernetes, kubernetesMissing, openKubernetes } from "../support/kubernetes.ts";
import { patience } from "../support/patience.ts";

const pool = { first: 0, last: 9 };
const window = 60_000;

describe.skipIf(kubernetesMissing !== undefined)(
  kubernetesMissing ?? "requests to an API server",
  { timeout: patience },
  () => {
    let server: Kubernetes;
    let proxy: ApiProxy;
    /** Behind the proxy, and past it. */
    let registry: Registry;
    let direct: Registry;
    let namespace: string;
    let tests = 0;

    beforeAll(async () => {
      server = await Kubernetes.start();
      proxy = await ApiProxy.start(server);
      registry = await openKubernetes(server.url(proxy.port), patience);
      direct = await openKubernetes(server.url(), patience);
    }, 1_200_000);
    afterAll(async () => {
      await Promise.all([registry.close(), direct.close()]);
      await proxy.stop();
      await server.remove();
    });
    beforeEach(async () => {
      namespace = `n${++tests}`;
      await direct.init({ namespace, layout: defaultLayout.fingerprint, new: true });
    });

    const ask = (host: string, wish: Partial<ClaimRequest> = {}): ClaimRequest =>
      claimRequest({ namespace, pool, window, holder: { host, ip: "10.0.0.1", pid: 1, instance: "" }, ...wish });

    /** What an operation answers, and how many requests it takes. */
    async function counted<Answer>(work: () => Promise<Answer>): Promise<readonly [answer: Answer, requests: number]> {
      const before = proxy.asked.length;
      const answer = await work();
      return [answer, proxy.asked.length - before];
    }

    async function outcomeOf(request: ClaimRequest): Promise<readonly [outcome: string, requests: number]> {
      const [{ outcome }, requests] = await counted(() => registry.claim(request));
      return [outcome, requests];
    }

    async function take(...workerIds: readonly number[]): Promise<void> {
      for (const workerId of workerIds) await granted(direct, ask(`other-${workerId}`, { workerId }));
    }

    test("a claim, again, a renewal, a release", async () => {
      // It writes hints.
      await granted(registry, ask("first"));
      const request = ask("mine");
      const [grant, requests] = await counted(() => granted(registry, request));
      expect(requests).toBe(11);
      expect(await outcomeOf(request)).toEqual(["granted", 11]);
      const key = { ...keyOf(request, grant), clock: Date.now() };
      expect((await counted(() => registry.renew({ ...key, window })))[1]).toBe(4);
      expect((await counted(() => registry.release(key)))[1]).toBe(3);
    });

    test("a number that is held", async () => {
      await take(0);
      expect(await outcomeOf(ask("mine", { workerId: 0 }))).toEqual(["held", 3]);
    });

    test("a pool that is exhausted: by hints, by a cache, by the pool itself", async () => {
      await take(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
      const [outcome, requests] = await outcomeOf(ask("mine"));
      expect(outcome).toBe("exhausted");
      expect(requests).toBeLessThan(48);
    });

    test("a claim that makes its namespace", async () => {
      namespace = `${namespace}_made`;
      const [outcome, requests] = await outcomeOf(ask("mine"));
      expect(outcome).toBe("granted");
      expect(requests).toBeLessThan(18);
    });

    test("a claim in quarantine looks for nothing", async () => {
      const request = ask("mine", { workerId: 0 });
      const grant = await granted(direct, request);
      const parts = (grant.receipt ?? "").split(".");
      parts[6] = "5";
      const nextTurn = crypto.randomUUID().replaceAll("-", "");
      const key = { ...keyOf(request, grant), clock: Date.now() };
      const renewal = direct.renew({ ...key, window, nextTurn, receipt: parts.join(".") });
      await expect(renewal).rejects.toMatchObject({ code: "QUARANTINE" });
      const [code, requests] = await counted(() =>
        registry.claim(ask("other")).catch((error: { code?: string }) => error.code),
      );
      expect([code, requests]).toEqual(["QUARANTINE", 1]);
    });

    test("the worker IDs of one state are one list, however few are asked for", async () => {
      await take(0, 1, 2, 3);
      const [found, requests] = await counted(() => registry.workers(namespace, { state: "pinned", limit: 1 }));
      expect([found, requests]).toEqual([[], 2]);
    });

    test("a history is read at one moment", async () => {
      const request = ask("mine", { workerId: 0 });
      const grant = await granted(direct, request);
      const name = `GET snowlease-${namespace}-worker-0`;
      const [first, second] = [proxy.hold(name, "after"), proxy.hold(name)];
      const history = registry.history(namespace, 0);
      await first.arrived;
      await Promise.race([second.arrived, sleep(100)]);
      await direct.release({ ...keyOf(request, grant), clock: Date.now() });
      first.go();
      second.go();
      expect((await history).map(({ fence, end }) => [fence, end])).toEqual([[grant.fence, undefined]]);
      // The second one still waits.
      await registry.worker(namespace, 0);
    });

    test("a pin whose label somebody took away makes no claim of its address wait", async () => {
      await direct.pin(namespace, 1, "spare", { ip: "10.9.9.9" });
      server.kubectl("label", "lease", `snowlease-${namespace}-worker-1`, "snowlease/owner-");
      await take(0);
      const holder = { host: "mine", ip: "10.9.9.9", pid: 1, instance: "" };
      const answer = await registry.claim(ask("mine", { pool: { first: 0, last: 1 }, holder }));
      expect(answer).toMatchObject({ outcome: "exhausted" });
    });

    test("others take each number that a claim looks at: it is told of no exhausted pool while numbers are free", async () => {
      const size = 60;
      const wide = { first: 0, last: size - 1 };
      const all = Array.from({ length: size }, (_, workerId) => workerId);
      for (const workerId of all)
        await granted(direct, ask(`other-${workerId}`, { pool: wide, workerId, window: 1000 }));
      await sleep(1500);
      for (const workerId of all) {
        const held = proxy.hold(`GET snowlease-${namespace}-worker-${workerId}`);
        void held.arrived.then(() => direct.claim(ask(`late-${workerId}`, { pool: wide, workerId }))).finally(held.go);
      }
      const answer = await registry.claim(ask("mine", { pool: wide }));
      const free = (await direct.workers(namespace, { state: "free" })).length;
      if (answer.outcome !== "granted") expect(free).toBe(0);
    });

    test("a namespace that is to go, and whose object a finalizer keeps there, is told of, and loses no record", async () => {
      const name = `snowlease-${namespace}-facts`;
      await take(0);
      const object = server.object(name);
      server.putBack({ ...object, metadata: { ...object.metadata, finalizers: ["example.com/held"] } });
      const refused = { code: "FORBIDDEN", message: expect.stringContaining(name) as string };
      const removal = async (forget: boolean): Promise<void> => {
        const { era = "" } = (await direct.describe(namespace)) ?? {};
        await registry.remove?.({ namespace, era, forget });
      };
      await expect(removal(true)).rejects.toMatchObject(refused);
      server.kubectl("delete", "lease", name, "--wait=false");
      await expect(removal(false)).rejects.toMatchObject(refused);
      const held = server.object(name);
      server.putBack({ ...held, metadata: { ...held.metadata, finalizers: [] } });
      expect(await direct.describe(namespace)).toBeUndefined();
      expect(await direct.claim(ask("other", { workerId: 0 }))).toMatchObject({ outcome: "held" });
      // What the refusal advises: no window that was granted comes again.
      const [{ until }] = (await direct.workers(namespace)) as [WorkerRecord];
      await direct.init({ namespace, layout: defaultLayout.fingerprint });
      await removal(false);
      const { quarantineEnd } = await direct.init({ namespace, layout: defaultLayout.fingerprint });
      expect(quarantineEnd).toBeGreaterThanOrEqual(until);
      expect(await direct.workers(namespace)).toEqual([]);
    });

    test("a record whose labels somebody took away is no unused number", async () => {
      await take(0, 1);
      server.kubectl("label", "lease", `snowlease-${namespace}-worker-1`, "snowlease/worker-");
      const answer = await registry.claim(ask("mine", { pool: { first: 0, last: 1 } }));
      expect(answer).toMatchObject({ outcome: "exhausted" });
      expect(await granted(registry, ask("mine", { pool: { first: 0, last: 2 } }))).toMatchObject({ workerId: 2 });
    });

    test("a number that is pinned for the claimer while it looks is no exhausted pool", async () => {
      const pair = { first: 0, last: 1 };
      await take(0);
      const holder = { host: "mine", ip: "10.9.9.9", pid: 1, instance: "" };
      const held = proxy.hold(`GET snowlease-${namespace}-worker-1`);
      const claim = registry.claim(ask("mine", { pool: pair, holder }));
      await held.arrived;
      await direct.pin(namespace, 1, "its own", { ip: holder.ip });
      held.go();
      expect(await claim).toMatchObject({ outcome: "granted", workerId: 1 });
    });

    test("numbers whose windows have passed by the server's clock alone hide none that the claim may have", async () => {
      const [old, size] = [45, 90];
      const wide = { first: 0, last: size - 1 };
      for (let workerId = 0; workerId < size; workerId++) {
        const wish = { pool: wide, workerId, window: workerId < old ? 1000 : 4000 };
        await granted(direct, ask(`other-${workerId}`, wish));
      }
      const records = await direct.workers(namespace);
      const ends = (from: number, end: number): number[] => records.slice(from, end).map(({ until }) => until);
      // By the claimer's clock, the windows of the second half are still open.
      const clock = Math.max(Math.max(...ends(0, old)) + 10, Math.min(...ends(old, size)) - 500);
      await sleep(Math.max(0, Math.max(...ends(0, size)) + 1500 - Date.now()));
      for (let workerId = 0; workerId < old; workerId++) {
        const held = proxy.hold(`GET snowlease-${namespace}-worker-${workerId}`);
        void held.arrived.then(() => direct.claim(ask(`late-${workerId}`, { pool: wide, workerId }))).finally(held.go);
      }
      // Two claims of this client that are under way: each chooses among many numbers by lot.
      const slow = `${namespace}_slow`;
      await direct.init({ namespace: slow, layout: defaultLayout.fingerprint });
      const gates = [1, 2].map(() => proxy.hold(`GET ${new LeaseNames(slow).facts}`));
      const waiting = [1, 2].map((n) => registry.claim(ask(`slow-${n}`, { namespace: slow })));
      await Promise.all(gates.map(({ arrived }) => arrived));
      const answer = await registry.claim(ask("mine", { pool: wide, clock }));
      const free = (await direct.workers(namespace)).filter(({ until }) => until <= clock);
      for (const gate of gates) gate.go();
      await Promise.all(waiting);
      if (answer.outcome !== "granted") expect(free).toEqual([]);
    });
  },
);
