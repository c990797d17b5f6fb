import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { Sandbox } from "../support/cli.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { databases } from "../support/databases.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

/** A store that Java processes share with us, and how one of them takes worker 5 there. */
interface Shared {
  readonly url: () => string;
  readonly remove: () => Promise<void>;
  readonly takeFive: () => Promise<unknown>;
}

const namespace = "orders";

const stores: readonly { name: string; missing: string | undefined; start: () => Promise<Shared> }[] = [
  {
    name: "redis",
    missing: redisMissing,
    async start() {
      const server = await RedisServer.start();
      const takeFive = (): Promise<unknown> =>
        server.client().set(`workerId/${namespace}:use:5`, "4711x10.0.0.9xjava-1");
      return { url: () => server.url(), remove: () => server.remove(), takeFive };
    },
  },
  ...databases.map(({ name, missing, start }) => ({
    name,
    missing,
    async start() {
      const server = await start();
      const row = "(5, 4711, '10.0.0.9', 'java-1', CURRENT_TIMESTAMP)";
      const columns = "(worker_id, pid, ip, hostname, create_time)";
      const takeFive = (): Promise<unknown> =>
        server.query(`INSERT INTO workerid_assign_${namespace} ${columns} VALUES ${row}`);
      return { url: () => server.url(), remove: () => server.remove(), takeFive };
    },
  })),
];

describe.each(stores)("IDs without a lease, on $name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a server of its own", () => {
    let shared: Shared;
    beforeAll(async () => {
      shared = await start();
    });
    afterAll(() => shared.remove());

    test("are counted separately by audit, and explained", async () => {
      const sandbox = new Sandbox();
      const registry = ["--registry", shared.url(), "--namespace", namespace];
      await sandbox.read(["init", "--new", ...registry]);
      await shared.takeFive();
      await sandbox.read(["pin", "9", "--reason", "used by delta", ...registry]);
      const ours = (await sandbox.read(["id", "-n", "50", "--claim-timeout", "30s", ...registry])).trim().split("\n");
      const now = Date.now();
      const made = (workerId: number, sequence: number): string =>
        String(defaultLayout.compose({ timestamp: now, workerId, sequence }));
      const [theirs, pinned] = [[1, 2, 3].map((n) => made(5, n)), [1, 2].map((n) => made(9, n))] as const;
      const all = [...ours, ...theirs, ...pinned];

      const plain = await sandbox.run(["audit", ...registry], { input: all.join("\n") });
      expect(plain).toMatchObject({ code: 0, stderr: "" });
      expect(plain.stdout).toBe(
        "Worker 5: 3 IDs outside of every window: java-1 (10.0.0.9), pid 4711 holds it and records no windows.\n" +
          "Worker 9: 2 IDs outside of every window, older than its first claim: it is pinned (used by delta).\n" +
          "55 IDs. More than once: 0. Outside of every recorded window: 0. Beyond the layout: 0. Lines without an ID: 0.\n" +
          "Not counted as outside: 3 made by foreign holders, which record no windows; 2 of pinned worker IDs, older than their first claim.\n",
      );
      const again = await sandbox.run(["audit", "--json", ...registry], {
        input: [...all, theirs[0], made(6, 0)].join("\n"),
      });
      expect(again.code).toBe(1);
      expect(JSON.parse(again.stdout)).toMatchObject({
        ids: 57,
        duplicates: 1,
        outside: 1,
        foreign: 3,
        pinned: 2,
        findings: [
          { kind: "duplicate", id: theirs[0] },
          { kind: "outside", workerId: 6 },
        ],
        notes: [
          { kind: "foreign", workerId: 5, ids: 3, by: { host: "java-1", ip: "10.0.0.9", pid: 4711, instance: "" } },
          { kind: "pinned", workerId: 9, ids: 2, reason: "used by delta" },
        ],
      });

      const daemon = await startDaemonProcess(shared.url());
      try {
        for (const way of [shared.url(), daemon.url]) {
          const text = await sandbox.read([
            "explain",
            "--registry",
            way,
            "--namespace",
            namespace,
            ...all.slice(49, 51),
          ]);
          expect(text).toMatch(/held by {4}\S+ \(.*\), pid \d+; fence \d+, claimed .*, window .* to .*, released\n/);
          expect(text).toContain(
            "held by    no recorded holder: worker 5 is taken by java-1 (10.0.0.9), pid 4711, which records no windows and may have made it\n",
          );
        }
        const answer = await fetch(`${daemon.url}/v1/${namespace}/ids/${pinned[0]}`);
        expect(await answer.json()).toMatchObject({ holders: [], unheld: { why: "pinned" } });
      } finally {
        await daemon.end("SIGKILL");
      }
    }, 60_000);
  });
});
