import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimKey, Registry } from "../../src/rule/registry.ts";
import { examine } from "../../src/ops/doctor/doctor.ts";
import { besideJava } from "../support/beside-java.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { eventually } from "../support/holder.ts";
import { JavaRow } from "../support/java-peer.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";

const layout = defaultLayout.fingerprint;
const skew = 1000;
/** As many as there are for Java processes, too. */
const pool = { first: 0, last: 7 };
const numbers = [0, 1, 2, 3, 4, 5, 6, 7];
const elsewhere = { host: "beta", ip: "10.0.0.2", pid: 1, instance: "" };

driveStandIn();

describe.each([...databases, oracleStandIn])(
  "numbers that go back to westid's table in $name",
  ({ missing, start }) => {
    describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
      let server: DatabaseServer;
      let registry: Registry;
      let namespace: string;
      let tests = 0;

      beforeAll(async () => {
        server = await start();
      });
      afterAll(() => server.remove());
      beforeEach(async () => {
        namespace = `n${++tests}`;
        registry = await openSql(server.url("?beside=westid"));
        await registry.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
      });
      afterEach(() => registry.close());

      const claim = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
        claimRequest({ namespace, pool, window: 300, ...wish });

      /** Of these numbers those that a Java process finds taken. */
      async function taken(): Promise<number[]> {
        const rows = await server.query(`SELECT worker_id FROM workerid_assign_${namespace} ORDER BY worker_id`);
        return rows.map(({ worker_id }) => Number(worker_id));
      }

      /** How many free numbers `doctor` says that a Java process finds taken. */
      async function looksTaken(): Promise<string | undefined> {
        const found = await examine({ open: () => openSql(server.url()), namespace, named: true, now: Date.now });
        const { detail = "" } = found.find(({ check }) => check === "pool") ?? {};
        return / (\d+) free ones still look taken to Java/.exec(detail)?.[1];
      }

      /** Claims numbers, and lets go of none: its holders are killed. */
      async function crash(count: number, from: Registry = registry, within = pool): Promise<ClaimKey[]> {
        const requests = Array.from({ length: count }, () => claim({ pool: within, window: 1000 }));
        return Promise.all(requests.map(async (request) => keyOf(request, await granted(from, request))));
      }

      /** Waits until no clock can show a time in any window any more. */
      async function outlast(): Promise<void> {
        const ends = (await registry.workers(namespace)).map(({ until }) => until);
        await eventually(
          async () => (await registry.ping()).clock,
          (clock) => clock > Math.max(...ends) + skew,
        );
      }

      const keyFor = (keys: readonly ClaimKey[], n: number): ClaimKey => {
        const found = keys.find(({ workerId }) => workerId === n);
        if (found === undefined) throw new Error(`nobody held ${n}`);
        return found;
      };

      test("a Java process starts again once holders of ours are gone: a few numbers go back with each claim", async () => {
        await crash(8);
        await expect(new JavaRow(server, namespace).start(pool.last)).rejects.toThrow("used up");
        await outlast();
        expect(await looksTaken()).toBe("8");
        const { workerId } = await granted(registry, claim({ holder: elsewhere, window: 60_000 }));
        const left = await taken();
        expect(left).toContain(workerId);
        expect(left).toHaveLength(4);
        expect(await looksTaken()).toBe("3");
        const java = new JavaRow(server, namespace);
        expect(left).not.toContain(await java.start(pool.last));
        expect(await registry.worker(namespace, java.workerId ?? -1)).toMatchObject({ state: "foreign" });
      });

      test("none goes back while a clock may show a time in its window", async () => {
        await crash(7);
        const claimed = await eventually(
          async () => {
            const { clock } = await registry.ping();
            const before = await registry.workers(namespace);
            await registry.claim(claim({ holder: elsewhere, workerId: 7, window: 20 }));
            const late = (await registry.ping()).clock;
            const left = new Set(await taken());
            for (const { workerId, until } of before)
              if (!left.has(workerId)) expect(until + skew).toBeLessThanOrEqual(late);
            return clock - Math.min(...before.map(({ until }) => until));
          },
          (since) => since > skew + 1000,
        );
        expect(claimed).toBeGreaterThan(skew);
        expect(await taken()).not.toContain(0);
      });

      test("the claims that follow give back the rest; such a number is claimed again when nothing else is left, and opens late", async () => {
        const keys = await crash(8);
        await outlast();
        const ids = [];
        for (let i = 0; i < 3; i++)
          ids.push((await granted(registry, claim({ holder: elsewhere, window: 60_000 }))).workerId);
        expect(await taken()).toEqual(ids.toSorted((a, b) => a - b));
        const before = await registry.workers(namespace);
        const late = await granted(registry, claim({ holder: elsewhere }));
        expect(ids).not.toContain(late.workerId);
        expect(late.from).toBe(late.clock + skew);
        expect(late.from).toBeGreaterThan(before.find(({ workerId }) => workerId === late.workerId)?.until ?? Infinity);
        expect(late.fence).toBeGreaterThan(keyFor(keys, late.workerId).fence);
      });

      test("a holder whose number went back has lost it at its next renewal, whether or not a Java process has it", async () => {
        const keys = await crash(8);
        await outlast();
        await granted(registry, claim({ holder: elsewhere }));
        const left = await taken();
        const [one = -1, two = -1] = numbers.filter((n) => !left.includes(n));
        expect(await new JavaRow(server, namespace).take(one)).toBe(true);
        for (const n of [one, two]) {
          const renewal = { ...keyFor(keys, n), clock: Date.now(), window: 300 };
          expect(await registry.renew(renewal)).toEqual({ outcome: "lost" });
          await registry.release({ ...keyFor(keys, n), clock: Date.now() });
          expect(await registry.renew(renewal)).toEqual({ outcome: "lost" });
        }
        expect(await registry.worker(namespace, one)).toMatchObject({
          state: "foreign",
          fence: keyFor(keys, one).fence,
        });
        expect(await registry.claim(claim({ workerId: one }))).toMatchObject({ outcome: "foreign" });
      });

      test("a pinned number and one that was renewed are left as they are", async () => {
        const keys = await crash(8);
        await registry.pin(namespace, 1, "kept");
        await outlast();
        await registry.renew({ ...keyFor(keys, 2), clock: Date.now(), window: 60_000 });
        for (let i = 0; i < 5; i++) await granted(registry, claim({ holder: elsewhere, window: 60_000 }));
        expect(await taken()).toEqual(expect.arrayContaining([1, 2]));
        expect(await registry.worker(namespace, 2)).toMatchObject({ state: "live", fence: keyFor(keys, 2).fence });
      });

      test.each([
        ["none was ever seen and none is said to be there", "", pool],
        ["the pool begins above the numbers that they take first", "?beside=westid", { first: 2, last: 7 }],
      ])("where %s, numbers stay as they are", async (_, query, within) => {
        namespace += "x";
        const open = await openSql(server.url(query));
        onTestFinished(() => open.close());
        await open.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew, new: true });
        await crash(within.last - within.first + 1, open, within);
        const before = await taken();
        await outlast();
        await granted(open, claim({ pool: within, holder: elsewhere }));
        expect(await taken()).toEqual(before);
      });

      test("a renewal and the claims that give its number back: one of them comes first", async () => {
        const other = await openSql(server.url());
        onTestFinished(() => other.close());
        for (let round = 0; round < 3; round++) {
          const keys = await crash(8);
          await outlast();
          const claims = [0, 1].map(() => registry.claim(claim({ holder: elsewhere })));
          const renewals = await Promise.all(
            keys.map((key) => other.renew({ ...key, clock: Date.now(), window: 60_000 })),
          );
          await Promise.all(claims);
          const left = await taken();
          for (const [i, { workerId, fence }] of keys.entries()) {
            if (renewals[i]?.outcome !== "renewed") continue;
            expect(left).toContain(workerId);
            expect(await registry.worker(namespace, workerId)).toMatchObject({ state: "live", fence });
            await registry.forceRelease({ namespace, workerId, fence, force: true, resetWindow: true });
          }
          await outlast();
        }
      });

      test("IDs of both, with clocks as far apart as they may be: not one twice", async () => {
        const made = await besideJava({
          url: server.url(`?beside=westid&namespace=${namespace}`),
          skew,
          start: async () => {
            const java = new JavaRow(server, namespace);
            await java.start(3);
            return { workerId: java.workerId ?? -1, leave: () => java.leave() };
          },
        });
        expect(made.starts).toBeGreaterThanOrEqual(4);
        expect(new Set(made.ids).size).toBe(made.ids.length);
      });
    });
  },
);
