import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { granted } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { JavaRow } from "../support/java-peer.ts";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { openSql } from "../support/sql.ts";
import { elsewhere, numbers, testReturns } from "../support/westid-returns.ts";

driveStandIn();

const kinds = [...databases, oracleStandIn];
const servers = new Map<string, DatabaseServer>();

// Before all tests: while a server gets its data folder, this process is blocked.
beforeAll(async () => {
  for (const { name, missing, start } of kinds) if (missing === undefined) servers.set(name, await start());
});
afterAll(() => Promise.all([...servers.values()].map((server) => server.remove())));

// One at a time: each waits for windows to end.
describe.concurrent.each(kinds)("worker IDs that go back to westid's table in $name", ({ name, missing }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", { concurrent: false }, () => {
    let server: DatabaseServer;
    let namespaces = 0;

    beforeAll(() => {
      server = servers.get(name) as DatabaseServer;
    });

    const tools = testReturns({
      fresh: async () => `n${++namespaces}`,
      url: (query) => server.url(query),
      open: (query) => openSql(server.url(query)),
      async taken(namespace) {
        const rows = await server.query(`SELECT worker_id FROM workerid_assign_${namespace} ORDER BY worker_id`);
        return rows.map(({ worker_id }) => Number(worker_id));
      },
      java: (namespace) => new JavaRow(server, namespace),
    });

    test("a holder whose worker ID went back has lost it at its next renewal, whether or not a Java process has it", async () => {
      const keys = await tools.crash(8);
      await tools.outlast();
      await granted(tools.registry, tools.claim({ holder: elsewhere }));
      const left = await tools.taken();
      const [one = -1, two = -1] = numbers.filter((n) => !left.includes(n));
      expect(await new JavaRow(server, tools.namespace).take(one)).toBe(true);
      for (const n of [one, two]) {
        const renewal = { ...tools.keyFor(keys, n), clock: Date.now(), window: 300 };
        expect(await tools.registry.renew(renewal)).toEqual({ outcome: "lost" });
        await tools.registry.release({ ...tools.keyFor(keys, n), clock: Date.now() });
        expect(await tools.registry.renew(renewal)).toEqual({ outcome: "lost", reason: "released" });
      }
      expect(await tools.registry.worker(tools.namespace, one)).toMatchObject({
        state: "foreign",
        fence: tools.keyFor(keys, one).fence,
      });
      expect(await tools.registry.claim(tools.claim({ workerId: one }))).toMatchObject({ outcome: "foreign" });
    });

    test("a pinned worker ID and a renewed one stay as they are", async () => {
      const keys = await tools.crash(8);
      await tools.registry.pin(tools.namespace, 1, "kept");
      await tools.outlast();
      await tools.registry.renew({ ...tools.keyFor(keys, 2), clock: Date.now(), window: 60_000 });
      for (let i = 0; i < 5; i++) await granted(tools.registry, tools.claim({ holder: elsewhere, window: 60_000 }));
      expect(await tools.taken()).toEqual(expect.arrayContaining([1, 2]));
      expect(await tools.registry.worker(tools.namespace, 2)).toMatchObject({
        state: "live",
        fence: tools.keyFor(keys, 2).fence,
      });
    });
  });
});
