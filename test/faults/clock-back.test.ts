import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { newDaemonOnFile } from "../support/daemon-process.ts";
import { clocksMissing, HolderProcess, WallClock } from "../support/holder.ts";
import { patience } from "../support/patience.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { newRegistryFile } from "../support/registry-file.ts";
import { openSql } from "../support/sql.ts";
import { type Subject, subjectOn } from "../support/subject.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const layout = defaultLayout.fingerprint;

interface Store {
  readonly name: string;
  readonly missing?: string | undefined;
  readonly start: () => Promise<Subject>;
}

const stores: readonly Store[] = [
  { name: "sqlite", start: newRegistryFile },
  {
    name: "redis",
    missing: redisMissing,
    async start() {
      const server = await RedisServer.start();
      return subjectOn(server, await openRedis(server.url()));
    },
  },
  {
    name: "postgres",
    missing: postgresMissing,
    async start() {
      const server = await PostgresServer.start();
      return subjectOn(server, await openSql(server.url()));
    },
  },
  {
    name: "zookeeper",
    missing: zooKeeperMissing,
    async start() {
      const server = await ZooKeeper.start();
      return subjectOn(server, await openZooKeeper(server.url()));
    },
  },
  { name: "a daemon", start: newDaemonOnFile },
];

/** Longer than these tests ever take, ms: nothing in them waits for the end of a window, and no window ends while they run. */
const window = 110_000;

/**
 * Real processes that are killed, and begin again with a wall clock that shows an earlier time. `restartMatrix` has many more such lives; here
 * no result depends on how quick the machine is.
 */
describe.each(stores)("a clock that goes back between two lives, on $name", ({ name, missing, start }) => {
  describe.skipIf((missing ?? clocksMissing) !== undefined)(missing ?? clocksMissing ?? "with real processes", () => {
    let subject: Subject;
    let namespace: string;
    let count = 0;
    let clock: WallClock;
    let holders: HolderProcess[];

    beforeAll(async () => {
      subject = await start();
    });
    afterAll(() => subject.stop());

    beforeEach(async () => {
      namespace = `orders${++count}`;
      await subject.registry.init({ new: true, namespace, layout });
      clock = new WallClock();
      holders = [];
    });
    afterEach(() => Promise.all(holders.map((each) => each.kill())));

    function holder(options: object = {}): HolderProcess {
      const common = { registry: subject.url, namespace, window, operationTimeout: patience };
      const made = new HolderProcess({ ...common, ...options }, clock);
      holders.push(made);
      return made;
    }

    /** Compares every ID of every life with every other. */
    function expectDistinct(number: number): void {
      const ids = holders.flatMap((each) => each.ids());
      expect(ids).toHaveLength(number);
      expect(new Set(ids).size).toBe(number);
    }

    test("killed with -9, then 5 s back: another worker ID", async () => {
      const first = holder();
      const { workerId } = await first.ask("start");
      await first.ask("make", { count: 1000 });
      await first.kill();

      clock.set(-5);
      const second = holder();
      expect((await second.ask("start")).workerId).not.toBe(workerId);
      await second.ask("make", { count: 1000 });
      expectDistinct(2000);
    });

    test("killed with -9, then 40 s back: another worker ID, or CLOCK_SKEW where the registry has a clock of its own", async () => {
      const first = holder();
      const { workerId } = await first.ask("start");
      await first.ask("make", { count: 1000 });
      await first.kill();

      clock.set(-40);
      const second = holder();
      if (name !== "sqlite") {
        await expect(second.ask("start")).rejects.toMatchObject({ code: "CLOCK_SKEW" });
        return;
      }
      expect((await second.ask("start")).workerId).not.toBe(workerId);
      await second.ask("make", { count: 1000 });
      expectDistinct(2000);
    });

    test("killed with -9, then 5 s back with the same fixed worker ID: refused", async () => {
      const fixed = { properties: { "snowlease.workerId": 7 } };
      const first = holder(fixed);
      await first.ask("start");
      await first.ask("make", { count: 1000 });
      await first.kill();

      clock.set(-5);
      const code = expect.stringMatching(/^(?:CLOCK_ROLLBACK|WORKER_ID_HELD)$/) as string;
      await expect(holder({ ...fixed, claimTimeout: 0 }).ask("start")).rejects.toMatchObject({ code });
    });

    test("given back, then 4 s back, then 6 s: the same worker ID, behind all that was used", async () => {
      const workerIds = new Set<number>();
      for (const offset of [0, -4, -6]) {
        clock.set(offset);
        const each = holder();
        workerIds.add((await each.ask("start")).workerId);
        expect((await each.ask("make", { count: 1000 })).error).toBeUndefined();
        await each.ask("close");
      }
      expect(workerIds.size).toBe(1);
      expectDistinct(3000);
    });
  });
});
