import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { Sandbox, until } from "../support/cli.ts";
import { databases } from "../support/databases.ts";
import { type FleetHost, Rack } from "../support/rack.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";

const layout = layouts.westid;
/** Long enough that a busy machine does not look like two clocks, ms. */
const maxClockSkew = 2000;
const window = 4000;

/** 30 hosts; two and two of them have the same last ten bits. */
const fleet: readonly FleetHost[] = [
  ...Array.from({ length: 28 }, (_, i) => `10.0.0.${i + 1}`),
  // The first collides inside its rack, the second with a host of another one.
  "10.0.4.1",
  "10.0.8.2",
].map((address, i) => ({ name: `host-${i}`, address, workerId: i < 28 ? i + 1 : i - 27 }));
const pairs = [
  [fleet[0], fleet[28]],
  [fleet[1], fleet[29]],
] as const;

interface Started {
  readonly url: (query?: string) => string;
  remove(): Promise<void>;
}

const stores: readonly { name: string; missing: string | undefined; start: () => Promise<Started> }[] = [
  { name: "redis", missing: redisMissing, start: () => RedisServer.start() },
  ...databases.filter(({ name }) => name === "postgres"),
];

const ended: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).toReversed()) await end();
});

/** The text of each number of hosts that make the same ID, by ID. */
function repeated(racks: readonly Rack[]): Map<string, string[]> {
  const makers = new Map<string, string[]>();
  for (const rack of racks) {
    for (const host of rack.hosts) {
      for (const kind of ["old", "leased"] as const) {
        for (const id of rack.ids(host, kind)) {
          const found = makers.get(id);
          if (found === undefined) makers.set(id, [`${host.name} ${kind}`]);
          else found.push(`${host.name} ${kind}`);
        }
      }
    }
  }
  return new Map([...makers].filter(([, names]) => names.length > 1));
}

describe.each(stores)("a fleet of 30 hosts that moves from its addresses to $name", ({ missing, start }) => {
  test.skipIf(missing !== undefined)(
    "makes no ID twice but where two hosts have the same number, until one of them has moved",
    async () => {
      const server = await start();
      ended.push(() => server.remove());
      const sandbox = new Sandbox();
      const registry = ["--registry", server.url(), "--namespace", "orders"];
      const cli = (...args: string[]): Promise<string> => sandbox.read(args);
      await cli("init", "--new", ...registry, "--max-clock-skew", `${maxClockSkew}ms`, "--max-window", "60s");

      // All hosts of a rack are in one process: none of them waits for the window of another.
      const options = { registry: server.url(), namespace: "orders", window, claimTimeout: 0 };
      // One and its rival stand beside each other, so that there are duplicates for certain.
      const [first, ...others] = [fleet[28], ...fleet.slice(0, 28), fleet[29]] as [FleetHost, ...FleetHost[]];
      const order = [first, ...others];
      const racks = [0, 1, 2, 3, 4, 5].map((i) => new Rack(order.slice(5 * i, 5 * i + 5), options, sandbox.work));
      ended.push(() => Promise.all(racks.map((rack) => rack.kill())));
      await Promise.all(racks.map((rack) => rack.start()));
      const rackOf = (host: FleetHost): Rack => racks.find(({ hosts }) => hosts.includes(host)) as Rack;

      const lines = fleet.map(({ name, address }) => `${name} ${address}\n`).join("");
      writeFileSync(join(sandbox.work, "hosts.txt"), lines);
      const planned = JSON.parse(
        await cli("migrate", "plan", "--from", "ip", "--hosts", "hosts.txt", ...registry, "--json"),
      );
      expect(planned.collisions.map(({ workerId }: { workerId: number }) => workerId)).toEqual([1, 2]);
      const { hosts } = planned as { hosts: { name: string; workerId: number }[] };
      expect(new Set(hosts.slice(0, 4).map(({ name }) => name))).toEqual(
        new Set(pairs.flat().map((host) => host?.name)),
      );
      await cli("migrate", "apply", ...registry);

      // The danger that all of this is about is there.
      const collided = (): Set<string> =>
        new Set([...repeated(racks).values()].map((names) => names.toSorted().join()));
      while (collided().size < 2) await sleep(50);

      const stopped = new Map<string, number>();
      const renumbered = new Set<number>();
      for (const [i, { name }] of hosts.entries()) {
        const host = fleet.find((each) => each.name === name) as FleetHost;
        const { workerId, stoppedAt } = await rackOf(host).move(host);
        stopped.set(name, stoppedAt);
        if (i >= 4) expect(workerId).toBe(host.workerId);
        else renumbered.add(workerId);
        if (i % 6 !== 5) continue;
        const rack = racks[Math.floor(i / 6)];
        await rack?.kill();
        await rack?.start();
      }
      expect(renumbered.size).toBe(4);
      expect(fleet.filter(({ workerId }) => renumbered.has(workerId))).toEqual([]);

      // Everybody has made something where the last one opened its window.
      const counts = async (): Promise<number[]> =>
        (await Promise.all(racks.map((rack) => rack.made()))).flatMap((made) => Object.values(made));
      while ((await counts()).some((count) => count === 0)) await sleep(50);
      // The registry learns of it with the next renewals.
      await until(async () => {
        const { moved, conflict } = JSON.parse(await cli("migrate", "status", ...registry, "--json"));
        return moved === 30 && conflict === 0;
      });
      await cli("migrate", "finish", ...registry, "--window", "1s");
      const workers = JSON.parse(await cli("workers", ...registry, "--json")) as { pinned?: string }[];
      expect(workers.filter(({ pinned }) => pinned !== undefined)).toEqual([]);
      const before = await counts();
      while ((await counts()).some((count, i) => count <= (before[i] ?? 0))) await sleep(50);
      await Promise.all(racks.map((rack) => rack.close()));

      const twice = repeated(racks);
      for (const [id, names] of twice) {
        const pair = pairs.find(
          (pair) =>
            pair
              .map((host) => `${host?.name} old`)
              .toSorted()
              .join() === names.toSorted().join(),
        );
        expect(pair, `${id} was made by ${names.join(" and ")}`).toBeDefined();
        const until = Math.min(...(pair ?? []).map((host) => stopped.get(host?.name ?? "") ?? 0));
        expect(layout.decompose(BigInt(id)).timestamp).toBeLessThanOrEqual(until);
      }
      const files = (kind: "old" | "leased"): string[] => {
        return fleet.map((host) => rackOf(host).file(host, kind)).filter((file) => existsSync(file));
      };
      const limit = ["--limit", "100000"];
      const all = await sandbox.run(["audit", "--json", ...limit, ...files("old"), ...files("leased")]);
      const { duplicates, findings } = JSON.parse(all.stdout) as { duplicates: number; findings: { id: string }[] };
      expect([duplicates, new Set(findings.map(({ id }) => id))]).toEqual([twice.size, new Set(twice.keys())]);
      // Whatever was made with a lease lies inside a window on record.
      const leased = await sandbox.run(["audit", "--json", ...registry, ...files("leased")]);
      expect(JSON.parse(leased.stdout)).toMatchObject({ duplicates: 0, outside: 0, invalid: 0 });
    },
    120_000,
  );
});
