import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import mysql from "mysql2/promise";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { examine } from "../../src/ops/doctor/doctor.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { failure } from "../support/failures.ts";
import { formAnew, TestCluster, galeraMissing } from "../support/galera.ts";
import { eventually } from "../support/holder.ts";
import type { MariadbServer } from "../support/mariadb.ts";
import { openSql } from "../support/sql.ts";

const layout = defaultLayout.fingerprint;
/** For a machine that is busy, and for a cluster that waits 5 s for a node. */
const patient = 60_000;

const statusOf = async (node: MariadbServer, name: string): Promise<string> =>
  String((await node.query(`SHOW STATUS LIKE 'wsrep_${name}'`))[0]?.["Value"]);

/** The state of each thread of a process. */
const statesOf = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/task`).map((task) =>
    readFileSync(`/proc/${pid}/task/${task}/stat`, "latin1").replace(/^.*\) (.).*$/s, "$1"),
  );

/** How many commits this node refused, or took back, because the other one was faster. */
async function conflictsOf(node: MariadbServer): Promise<number> {
  return Number(await statusOf(node, "local_cert_failures")) + Number(await statusOf(node, "local_bf_aborts"));
}

describe.skipIf(galeraMissing !== undefined)(galeraMissing ?? "a Galera cluster", () => {
  let cluster: TestCluster;
  let first: MariadbServer;
  let second: MariadbServer;
  let namespace = "";
  let tests = 0;
  const open: { close(): Promise<void> }[] = [];

  const started = async (): Promise<void> => {
    cluster = await TestCluster.start();
    [first, second] = cluster.nodes;
  };
  const opened = async (node: MariadbServer, timeout = patient): Promise<Registry> => {
    const registry = await openSql(node.url(), timeout);
    open.push(registry);
    return registry;
  };
  const both = async (): Promise<[Registry, Registry]> => {
    namespace = `g${++tests}`;
    const registries: [Registry, Registry] = [await opened(first), await opened(second)];
    await Promise.all(registries.map((one) => one.init({ namespace, layout })));
    return registries;
  };
  const ask = (wish: Partial<ClaimRequest> = {}): ClaimRequest => claimRequest({ namespace, window: 60_000, ...wish });
  const renewed = (registry: Registry, request: ClaimRequest, grant: Grant): ReturnType<Registry["renew"]> =>
    registry.renew({ ...keyOf(request, grant), receipt: grant.receipt, clock: Date.now(), window: 60_000 });
  const dump = async (node: MariadbServer): Promise<unknown> => {
    const tables = ["assign", "window", "history", "meta"];
    return Promise.all(tables.map((table) => node.query(`SELECT * FROM workerid_${table}_${namespace}`)));
  };

  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });

  describe("of two nodes", () => {
    beforeAll(started);
    afterAll(() => cluster.remove());

    test("is one registry, whichever node is asked", async () => {
      const registries = await both();
      const grants: { request: ClaimRequest; grant: Grant }[] = [];
      for (let i = 0; i < 20; i++) {
        const request = ask();
        grants.push({ request, grant: await granted(registries[i % 2 === 0 ? 0 : 1], request) });
      }
      expect(new Set(grants.map(({ grant }) => grant.workerId)).size).toBe(20);
      // Each is renewed by the other node, and given back by its own.
      for (const [i, { request, grant }] of grants.entries()) {
        const [here, there] = i % 2 === 0 ? registries : registries.toReversed();
        expect(await renewed(there as Registry, request, grant)).toMatchObject({ outcome: "renewed" });
        const release = { ...keyOf(request, grant), clock: Date.now() };
        expect(await here?.release(release)).toEqual({ outcome: "released" });
      }
      for (const registry of registries) {
        expect(await registry.describe(namespace)).not.toHaveProperty("quarantineEnd");
      }
    });

    test("a namespace whose name is forgotten leaves its tables: another node may make it anew", async () => {
      const [here, there] = await both();
      await here.init({ namespace: "trial", layout });
      const { era = "" } = (await there.describe("trial")) ?? {};
      await here.remove?.({ namespace: "trial", era, forget: true });
      expect(await there.describe("trial")).toBeUndefined();
      const tables = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'workerid%trial'";
      expect(await cluster.nodes[0]?.query(tables)).toHaveLength(4);
    });

    test("grants no worker ID twice to claims at both nodes at once", async () => {
      const registries = await both();
      const before = await Promise.all(cluster.nodes.map((node) => conflictsOf(node)));
      const all = new Set<string>();
      for (let round = 0; round < 50; round++) {
        const pool = { first: round * 4, last: round * 4 + 3 };
        const answers = await Promise.all(
          Array.from({ length: 8 }, async (_, i) => {
            const request = ask({ pool });
            return { request, answer: await registries[i % 2 === 0 ? 0 : 1].claim(request) };
          }),
        );
        const grants = answers.flatMap(({ answer }) => (answer.outcome === "granted" ? [answer] : []));
        expect(grants.map(({ workerId }) => workerId).toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: 4 }, (_, i) => pool.first + i),
        );
        for (const { workerId, fence } of grants) {
          all.add(`${workerId}`);
          // What was granted is what is stored.
          expect(await registries[round % 2]?.worker(namespace, workerId)).toMatchObject({ fence });
        }
        const now = await Promise.all(cluster.nodes.map((node) => conflictsOf(node)));
        if (round >= 5 && now.every((count, i) => count > (before[i] ?? 0))) break;
      }
      // Commits of both nodes were refused because the other one was faster.
      const after = await Promise.all(cluster.nodes.map((node) => conflictsOf(node)));
      for (const [i, count] of after.entries()) expect(count).toBeGreaterThan(before[i] ?? NaN);
      for (const registry of registries) {
        expect(await registry.describe(namespace)).not.toHaveProperty("quarantineEnd");
      }
    });

    test("a node that is behind the other one tells nothing old", async () => {
      const [here, there] = await both();
      await granted(here, ask({ workerId: 1 }));
      const lock = await mysql.createConnection({ host: "127.0.0.1", port: second.port, user: "root" });
      // From here on it receives what the other node writes, and applies nothing.
      await lock.query("FLUSH TABLES WITH READ LOCK");
      await granted(here, ask({ workerId: 2 }));
      const told = there.worker(namespace, 2);
      // Enough for a node that does not wait.
      await Promise.race([told, sleep(1000)]);
      lock.destroy();
      expect(await told).toMatchObject({ workerId: 2, state: "live" });
    });

    test("the doctor finds all well at the other node, and changes nothing", async () => {
      const [here] = await both();
      await granted(here, ask());
      const before = await dump(first);
      const found = await examine({ open: () => openSql(second.url()), namespace, named: true, now: Date.now });
      expect(found.filter(({ status }) => status === "fail" || status === "warn")).toEqual([]);
      expect(found.map(({ detail }) => detail).join("\n")).toContain(
        "survive the loss of this node while its cluster goes on",
      );
      expect(await dump(first)).toEqual(before);
      await granted(here, ask());
      expect(await here.describe(namespace)).not.toHaveProperty("quarantineEnd");
    });

    test("a user who may not see the nodes is told what to grant", async () => {
      await both();
      await first.query("CREATE USER app@127.0.0.1");
      await first.query("GRANT SELECT, INSERT, UPDATE, DELETE ON snowlease.* TO app@127.0.0.1");
      const url = second.url().replace("root@", "app@");
      const refused = await openSql(url);
      open.push(refused);
      const told = "grant SELECT on mysql.wsrep_cluster and on mysql.wsrep_cluster_members";
      expect(await failure(refused.claim(ask()))).toMatchObject({
        code: "FORBIDDEN",
        message: expect.stringContaining(told) as string,
      });
      for (const table of ["wsrep_cluster", "wsrep_cluster_members"]) {
        await first.query(`GRANT SELECT ON mysql.${table} TO app@127.0.0.1`);
      }
      await granted(refused, ask());
    });
  });

  describe("that loses a node", () => {
    beforeAll(started);
    afterAll(() => cluster.remove());

    test("goes on without a quarantine, and so it does when the node is back", async () => {
      const [here, there] = await both();
      const claims = await Promise.all(
        [here, there].map(async (registry) => {
          const request = ask();
          return { request, grant: await granted(registry, request) };
        }),
      );
      await second.kill();
      const lone = ask();
      claims.push({ request: lone, grant: await granted(here, lone) });
      for (const { request, grant } of claims) {
        expect(await renewed(here, request, grant)).toMatchObject({ outcome: "renewed" });
      }
      await second.start();
      const back = await opened(second);
      for (const { request, grant } of claims) {
        expect(await renewed(back, request, grant)).toMatchObject({ outcome: "renewed" });
      }
      const last = await granted(back, ask());
      expect(new Set([...claims.map(({ grant }) => grant.workerId), last.workerId]).size).toBe(4);
      expect(await back.describe(namespace)).not.toHaveProperty("quarantineEnd");
    });

    test("a node that is left without a majority says so, and a claim that it was asked for is granted once", async () => {
      const [, there] = await both();
      const impatient = await opened(second, 12_000);
      await granted(impatient, ask());
      first.process.signal("SIGSTOP");
      await eventually(
        async () => statesOf(first.process.pid),
        (states) => states.every((state) => state === "T"),
      );
      const reader = await opened(second, 12_000);
      // Until it knows that it was cut off, it may answer: nothing that it lacks can have been committed without it for so long.
      const reading = eventually(
        () => reader.worker(namespace, 1).catch((error: unknown) => error),
        (answer) => answer instanceof Error,
      );
      const doubtful = ask();
      // It waits for the other node until it gives it up, in a read or in the commit: then it may be done.
      const refused = await failure(impatient.claim(doubtful));
      expect(refused).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
      expect(refused.message).toMatch(/whether it did what was asked is not known|is no working part of its cluster/);
      for (const refusal of [(await reading) as Error, await failure((await opened(second, 2000)).claim(ask()))]) {
        expect(refusal).toMatchObject({ code: "REGISTRY_UNAVAILABLE", retryable: true });
        expect(refusal.message).toMatch(
          /is no working part of its cluster at the moment \(WSREP .*\); look at wsrep_cluster_status/,
        );
      }
      first.process.signal("SIGCONT");
      const again = await granted(there, { ...doubtful, clock: Date.now() });
      expect(await there.worker(namespace, again.workerId)).toMatchObject({ fence: again.fence });
      expect(await there.describe(namespace)).not.toHaveProperty("quarantineEnd");
    });
  });

  describe("that is formed anew", () => {
    beforeAll(started);
    afterAll(() => cluster.remove());

    test("by a node that was behind is in quarantine, until each window has passed that it does not know", async () => {
      const [here] = await both();
      const known = ask({ workerId: 1 });
      await granted(here, known);
      await second.process.kill("SIGTERM");
      const id = await statusOf(first, "cluster_state_uuid");
      const forgotten = ask({ workerId: 2 });
      const grant = await granted(here, forgotten);
      await first.kill();
      await formAnew(second);

      // The cluster calls itself by the name that it had.
      expect(await statusOf(second, "cluster_state_uuid")).toBe(id);
      const there = await opened(second);
      const refusal = await failure(there.claim(ask({ workerId: 2 })));
      expect(refusal).toMatchObject({ code: "QUARANTINE" });
      expect(refusal.details["until"]).toBeGreaterThan(grant.until);
      expect(refusal.message).toContain("formed anew");
      expect(await there.worker(namespace, 2)).toBeUndefined();
    });
  });

  describe("whose nodes have all crashed", () => {
    beforeAll(started);
    afterAll(() => cluster.remove());

    test("and do not know what they have is refused", async () => {
      const [here] = await both();
      await granted(here, ask());
      await Promise.all(cluster.nodes.map((node) => node.kill()));
      // Without `--wsrep-start-position`: both come back, and call themselves one cluster.
      await Promise.all(cluster.nodes.map((node) => node.start()));
      for (const node of cluster.nodes) {
        expect(await failure((await opened(node)).claim(ask()))).toMatchObject({
          code: "REGISTRY_UNAVAILABLE",
          message: expect.stringContaining("do not know whether they have the same data") as string,
        });
      }
    });
  });
});
