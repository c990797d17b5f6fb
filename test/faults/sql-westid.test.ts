import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";

const layout = defaultLayout.fingerprint;
const skew = 1000;
/** How long behind its read a claim may be stored, ms. */
const lateness = 1000;

driveStandIn();

describe.each([...databases, oracleStandIn])("westid's processes on the same table in $name", ({ missing, start }) => {
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
      registry = await openSql(server.url());
    });
    afterEach(() => registry.close());

    const init = (): Promise<unknown> => registry.init({ namespace, layout, maxWindow: 60_000, maxClockSkew: skew });
    const claim = (wish: Parameters<typeof claimRequest>[0] = {}): ReturnType<typeof claimRequest> =>
      claimRequest({ namespace, ...wish });

    /** As a Java process writes it. */
    async function java(workerId: number, hostname = "java-1"): Promise<void> {
      await server.query(
        `INSERT INTO workerid_assign_${namespace} (worker_id, pid, ip, hostname, create_time) VALUES (${workerId}, 4711, '10.0.0.9', '${hostname}', CURRENT_TIMESTAMP)`,
      );
    }

    async function rows(): Promise<unknown[]> {
      const found = await server.query(
        `SELECT worker_id, pid, ip, hostname FROM workerid_assign_${namespace} ORDER BY worker_id`,
      );
      return found.map(({ worker_id, pid, ip, hostname }) => [Number(worker_id), Number(pid), ip, hostname]);
    }

    const theirs = (workerId: number): unknown[] => [workerId, 4711, "10.0.0.9", "java-1"];

    test("what we hold stands there as taken, with no address of anybody's, and goes once its window has passed", async () => {
      await init();
      const host = `knoten-${"ä".repeat(100)}`;
      const request = claim({ holder: { host, ip: "10.0.0.9", pid: 4711, instance: "" }, window: 60_000 });
      const grant = await granted(registry, request);
      const [row] = (await rows()) as [[number, number, string, string]];
      expect(row[0]).toBe(grant.workerId);
      expect(row[2]).toMatch(/^lease@[0-9a-f]{9}$/);
      expect(row[3]).toBe(`knoten-${"?".repeat(53)}`);
      expect((await registry.worker(namespace, grant.workerId))?.holder?.host).toBe(host);
      await registry.release({ ...keyOf(request, grant), clock: Date.now(), used: { until: grant.from } });
      expect(await rows()).toEqual([]);
    });

    test("while a window that was not given back has not passed, the number stays taken", async () => {
      await init();
      const request = claim({ window: 60_000 });
      const grant = await granted(registry, request);
      await registry.release({ ...keyOf(request, grant), clock: Date.now() });
      expect(await rows()).toHaveLength(1);
      await registry.forceRelease({ namespace, workerId: grant.workerId, force: true });
      expect(await rows()).toHaveLength(1);
    });

    test("their numbers are passed by, shown as foreign, refused by name, and left as they are", async () => {
      await init();
      for (const workerId of [0, 1, 2, 5]) await java(workerId);
      const ids = [];
      for (let i = 0; i < 3; i++) ids.push((await granted(registry, claim({ preferred: [5] }))).workerId);
      expect(ids).toEqual([3, 4, 6]);
      const holder = { host: "java-1", ip: "10.0.0.9", pid: 4711, instance: "" };
      expect(await registry.claim(claim({ workerId: 5 }))).toMatchObject({ outcome: "foreign", workerId: 5, holder });
      expect(await registry.claim(claim({ workerId: 0 }))).toMatchObject({ outcome: "foreign", holder });
      const listed = await registry.workers(namespace, { state: "foreign" });
      expect(listed.map(({ workerId, holder }) => [workerId, holder])).toEqual([0, 1, 2, 5].map((n) => [n, holder]));
      expect(await registry.worker(namespace, 1)).toMatchObject({ state: "foreign", holder });
      expect((await registry.workers(namespace, { state: "live" })).map(({ workerId }) => workerId)).toEqual([3, 4, 6]);
      await java(1023);
      expect(await registry.worker(namespace, 1023)).toMatchObject({ state: "foreign", holder });
      expect((await registry.workers(namespace, { after: 6 })).map(({ workerId }) => workerId)).toEqual([1023]);
      expect((await rows()).filter((row) => (row as unknown[])[2] === "10.0.0.9")).toEqual(
        [0, 1, 2, 5, 1023].map(theirs),
      );
    });

    test("a whole pool of theirs is exhausted, and what they leave is had once nobody's clock can be behind", async () => {
      await init();
      const pool = { first: 0, last: 2 };
      for (const workerId of [0, 1, 2]) await java(workerId);
      expect(await registry.claim(claim({ pool }))).toMatchObject({ outcome: "exhausted" });
      await server.query(`DELETE FROM workerid_assign_${namespace} WHERE worker_id = 1`);
      const { workerId, from, until, clock } = await granted(registry, claim({ pool, window: 2000 }));
      expect([workerId, from, until]).toEqual([1, clock + lateness + skew, clock + lateness + skew + 2000]);
      expect(await registry.claim(claim({ pool }))).toMatchObject({ outcome: "exhausted" });
    });

    test("one that has the number which is pinned for a host is seen by that host's claim, which opens another number later", async () => {
      await init();
      const { holder } = claim();
      await registry.pin(namespace, 5, "kept", { ip: holder.ip });
      await java(5);
      const { workerId, from, clock } = await granted(registry, claim());
      expect([workerId, from]).toEqual([0, clock + lateness + skew]);
      await server.query(`DELETE FROM workerid_assign_${namespace} WHERE worker_id = 5`);
      // It is still pinned for this host.
      expect(await granted(registry, claim())).toMatchObject({ workerId: 5 });
    });

    test("once they were seen, a number that we never let go opens as before, and one that was free opens later", async () => {
      await init();
      const pool = { first: 1, last: 1 };
      const first = claim({ pool, window: 60_000 });
      const held = await granted(registry, first);
      await java(0);
      await registry.claim(claim({ workerId: 0 }));
      await registry.release({ ...keyOf(first, held), clock: Date.now(), used: { until: held.from } });
      // It still stands there as ours: none of theirs can have had it.
      expect(await rows()).toHaveLength(2);
      const again = await granted(registry, claim({ pool, window: 2000 }));
      expect(again.from).toBe(Math.max(held.from, again.clock - skew));
      const other = await granted(registry, claim({ pool: { first: 2, last: 2 }, window: 2000 }));
      expect(other.from).toBe(other.clock + lateness + skew);
    });

    test.each([60_000, 500])(
      "no window ends later than a quarantine lasts, and %i ms are not used up before it begins",
      async (maxWindow) => {
        await registry.init({ namespace, layout, maxWindow, maxClockSkew: skew });
        await java(0);
        expect(await registry.claim(claim({ workerId: 0, window: 1 }))).toMatchObject({ outcome: "foreign" });
        const { from, until, clock } = await granted(registry, claim({ window: maxWindow }));
        expect(from).toBe(clock + Math.min(lateness, maxWindow / 2) + skew);
        expect(until).toBe(clock + skew + maxWindow);
      },
    );

    test("a namespace that is made on a table of theirs knows of them from the first claim on", async () => {
      await init();
      await java(7);
      for (const table of ["window", "history", "meta"])
        await server.query(`DROP TABLE workerid_${table}_${namespace}`);
      await init();
      expect(await rows()).toEqual([theirs(7)]);
      const { workerId, from, clock } = await granted(registry, claim());
      expect([workerId, from]).toEqual([0, clock + lateness + skew]);
    });

    test("a number of ours that they took, or whose row is gone, is lost at the next renewal, and theirs stays", async () => {
      await init();
      const requests = [claim({ window: 60_000 }), claim({ window: 60_000 })];
      const keys = [];
      for (const request of requests) keys.push(keyOf(request, await granted(registry, request)));
      await server.query(`DELETE FROM workerid_assign_${namespace}`);
      await java(0);
      for (const key of keys) {
        expect(await registry.renew({ ...key, clock: Date.now(), window: 60_000 })).toEqual({ outcome: "lost" });
      }
      await registry.release({ ...(keys[0] ?? { namespace, workerId: 0, fence: 0, token: "" }), clock: Date.now() });
      expect(await rows()).toEqual([theirs(0)]);
      expect(await registry.worker(namespace, 0)).toMatchObject({ state: "foreign" });
    });

    test("a row that appears between what a claim read and what it writes is not overwritten", async () => {
      await init();
      const claims = Array.from({ length: 20 }, () =>
        registry.claim(claim({ pool: { first: 0, last: 29 }, window: 60_000 })),
      );
      const inserts = Array.from({ length: 10 }, (_, i) => java(i).catch(() => undefined));
      const answers = await Promise.all(claims);
      await Promise.all(inserts);
      const ours = answers.flatMap((answer) => (answer.outcome === "granted" ? [answer.workerId] : []));
      expect(new Set(ours).size).toBe(20);
      const marked = (await rows()) as [number, number, string, string][];
      expect(marked.filter(([, , ip]) => ip.startsWith("lease@")).map(([id]) => id)).toEqual(
        ours.toSorted((a, b) => a - b),
      );
    });

    test("an old table in another character set takes rows of any host name", async () => {
      if (registry.kind !== "mysql") return;
      await server.query(
        `CREATE TABLE workerid_assign_${namespace} (worker_id INT PRIMARY KEY, pid INT NOT NULL, ip VARCHAR(15) NOT NULL, hostname VARCHAR(60) NOT NULL, create_time TIMESTAMP NOT NULL) ENGINE = InnoDB DEFAULT CHARSET = latin1`,
      );
      await init();
      const request = claim({ holder: { host: "節點-🐧-ä", ip: "", pid: 1, instance: "" } });
      const key = keyOf(request, await granted(registry, request));
      expect(await registry.renew({ ...key, clock: Date.now(), window: 2000 })).toMatchObject({ outcome: "renewed" });
    });
  });
});
