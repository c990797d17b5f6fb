import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { tokenIn } from "../../src/registries/zookeeper/nodes.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { HolderProcess } from "../support/holder.ts";
import { deleteAll, readTree, removeNode } from "../support/zookeeper-tree.ts";
import { openZooKeeper, ZooKeeper, zooKeeperMissing } from "../support/zookeeper.ts";

const namespace = "orders";
const root = `/snowlease/${namespace}`;
/** How many things happen to each holder, one after the other. */
const rounds = Number(process.env["SNOWLEASE_ROUNDS"] ?? 12);

/*
 * Four holders that all want the same two numbers, each behind a network of its own, while everything happens to them, to the server
 * and to its nodes that can. Which of them has a number when does not matter: no ID may come twice.
 */
describe.skipIf(zooKeeperMissing !== undefined)(
  zooKeeperMissing ?? "holders in ZooKeeper to whom everything happens",
  () => {
    test("make no ID twice", { timeout: 60_000 + rounds * 10_000 }, async () => {
      const ensemble = await ZooKeeper.start();
      onTestFinished(() => ensemble.remove());
      const [server] = ensemble.servers;
      if (server === undefined) throw new Error("There is no server.");
      const operator = await openZooKeeper(ensemble.url(), 3000);
      onTestFinished(() => operator.close());
      await operator.init({ namespace, layout: defaultLayout.fingerprint, maxWindow: 1500, maxClockSkew: 1000 });
      const all: HolderProcess[] = [];
      onTestFinished(async () => void (await Promise.all(all.map((holder) => holder.kill()))));
      const happened = new Map<string, number>();

      const pick = <Item>(items: readonly Item[]): Item => {
        const picked = items[Math.floor(Math.random() * items.length)];
        if (picked === undefined) throw new Error("There is nothing to pick from.");
        return picked;
      };
      const somewhile = (ms: number): Promise<void> => sleep(ms * Math.random());
      const ignored = (work: Promise<unknown>): Promise<unknown> => work.catch(() => undefined);

      // Renewed only where a renewal comes in time, a number is granted anew once its window has passed.
      const grants = async (): Promise<number> =>
        (await operator.history(namespace, 0)).length + (await operator.history(namespace, 1)).length;
      const isEnough = async (): Promise<boolean> => (await grants().catch(() => 0)) > 4;

      async function life(place: number): Promise<void> {
        const proxy = await FaultProxy.start(server?.port ?? 0);
        onTestFinished(() => proxy.stop());
        const born = (): HolderProcess => {
          const holder = new HolderProcess({
            registry: `zookeeper://127.0.0.1:${proxy.port}?sessionTimeout=500ms`,
            namespace,
            pool: "0-1",
            window: 1200,
            host: `host-${place}`,
            claimTimeout: 60_000,
            operationTimeout: 600,
          });
          all.push(holder);
          void (async () => {
            // A holder's claim fails while it is cut off: it asks again, as a service that is started again does.
            for (let started = false; !started;) {
              try {
                await holder.ask("start");
                started = true;
              } catch (error) {
                if (!(error instanceof Error && "code" in error)) return;
                await sleep(100);
              }
            }
            await ignored(holder.ask("run"));
          })();
          return holder;
        };
        let holder = born();
        const workerId = (): number => pick([0, 1]);
        const fates: Record<string, () => Promise<unknown>> = {
          async "is stopped for a moment"() {
            holder.signal("SIGSTOP");
            await somewhile(500);
            holder.signal("SIGCONT");
          },
          async "is stopped past its window"() {
            holder.signal("SIGSTOP");
            await sleep(1300 + 1200 * Math.random());
            holder.signal("SIGCONT");
          },
          async "is killed"() {
            await holder.kill();
            holder = born();
          },
          async "gives back"() {
            const old = holder;
            await Promise.race([ignored(old.ask("close")), sleep(1500)]);
            await old.kill();
            holder = born();
          },
          async "is cut off"() {
            proxy.set(pick([blackHole, { toServer: "drop" }, { toClient: "drop" }, { refuse: true }] as const));
            await somewhile(2500);
            proxy.heal();
          },
          async "is cut off, and what it sent arrives late"() {
            proxy.set(pick([{ toServer: "hold" }, { toClient: "hold" }, { delay: 300 }] as const));
            await somewhile(2500);
            proxy.heal();
          },
          async "loses its connection"() {
            proxy.reset();
            await somewhile(200);
          },
          "is released by force": () =>
            ignored(operator.forceRelease({ namespace, workerId: workerId(), force: true })),
          async "has its number pinned and unpinned"() {
            const id = workerId();
            await ignored(operator.pin(namespace, id, "for a moment"));
            await somewhile(500);
            await ignored(operator.unpin(namespace, id));
          },
          async "has the node of its session deleted"() {
            // The server may be stopped or killed meanwhile: then nothing is deleted.
            const tree = await readTree(server?.port ?? 0, `${root}/state`).catch(() => new Map<string, string>());
            const lives = [...tree.keys()].filter((path) => tokenIn(path.split("/").at(-1) ?? "") !== undefined);
            if (lives.length > 0) await ignored(removeNode(server?.port ?? 0, pick(lives)));
          },
          "has its record deleted": () =>
            ignored(deleteAll(server?.port ?? 0, `${root}/state/0/000000000${workerId()}`)),
        };
        for (let round = 0; round < rounds || !(await isEnough()); round++) {
          const what = pick(Object.keys(fates));
          happened.set(what, (happened.get(what) ?? 0) + 1);
          await Promise.race([fates[what]?.(), sleep(5000)]);
          await somewhile(600);
        }
        proxy.heal();
      }

      let living = true;
      const outages = (async () => {
        while (living) {
          await sleep(2000 + 2000 * Math.random());
          if (Math.random() < 0.5) {
            await server.process.kill();
            await somewhile(1000);
            await server.start();
          } else {
            server.process.signal("SIGSTOP");
            await somewhile(1500);
            server.process.signal("SIGCONT");
          }
        }
      })();
      await Promise.all([0, 1, 2, 3].map(life));
      living = false;
      await outages;
      // Whoever is left has a number in the end.
      await sleep(4000);
      for (const holder of all) await holder.kill();

      const ids = all.flatMap((holder) => holder.ids());
      const text = [...happened].map(([what, count]) => `${count} ${what}`).join(", ");
      expect(new Set(ids).size, text).toBe(ids.length);
      expect(ids.length).toBeGreaterThan(1000);
      expect(await isEnough()).toBe(true);
    });
  },
);
