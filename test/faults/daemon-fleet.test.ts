import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { Lease } from "../../src/lease/lease.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { startDaemonProcess, type DaemonProcess } from "../support/daemon-process.ts";
import { blackHole, FaultProxy } from "../support/fault-proxy.ts";
import { defaults } from "../support/generator.ts";
import { eventually, HolderProcess } from "../support/holder.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
const window = 3000;
/** Of which each of three daemons gets its third. */
const operationTimeout = 6000;

/** For a daemon to start five times, and each lease to be renewed four times, on a busy machine, ms. */
const timeout = 180_000;

interface Server {
  url(): string;
  remove(): Promise<void>;
}

const stores: readonly {
  readonly name: string;
  readonly missing: string | undefined;
  readonly start: () => Promise<Server>;
  readonly open: (url: string) => Promise<Registry>;
}[] = [
  { name: "Redis", missing: redisMissing, start: () => RedisServer.start(), open: openRedis },
  { name: "PostgreSQL", missing: postgresMissing, start: () => PostgresServer.start(), open: openSql },
];

/** One after the other, over and over. */
function* inTurn<Item>(all: readonly Item[]): Generator<Item, never> {
  for (;;) yield* all;
}

describe.each(stores)("three daemons on one $name", ({ name, missing, start, open }) => {
  describe.skipIf(missing !== undefined)(missing ?? "clients that know all of them", () => {
    let server: Server;
    let registry: Registry;
    let daemons: DaemonProcess[];
    let holders: HolderProcess[];
    /** What others than the holders made. */
    let others: bigint[];

    beforeAll(async () => {
      server = await start();
      registry = await open(server.url());
      await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint });
      daemons = await Promise.all([1, 2, 3].map(() => startDaemonProcess(server.url())));
    });
    afterAll(async () => {
      await Promise.all(daemons.map((daemon) => daemon.end("SIGKILL")));
      await registry.close();
      await server.remove();
    });

    beforeEach(() => {
      holders = [];
      others = [];
    });
    afterEach(() => Promise.all(holders.map((holder) => holder.kill())));

    /** The same, another one first for each client. */
    function rotated<Item>(all: readonly Item[], first: number): Item[] {
      return [...all.slice(first), ...all.slice(0, first)];
    }

    /** Three services that make IDs all the time. */
    async function startHolders(addresses: readonly string[]): Promise<void> {
      holders = [0, 1, 2].map((i) => {
        return new HolderProcess({ registry: rotated(addresses, i).join(","), namespace, window, operationTimeout });
      });
      await Promise.all(holders.map((holder) => holder.ask("start")));
      await Promise.all(holders.map((holder) => holder.ask("run")));
    }

    /** Waits until every service has renewed its lease, which it asked for after now. */
    async function allRenewed(): Promise<void> {
      const renewed = Date.now() + window;
      for (const holder of holders) {
        await eventually(
          () => holder.ask("state"),
          ({ until }) => until > renewed,
        );
      }
    }

    /** No service lost its lease; each gives it back; nobody made an ID that another one made. */
    async function expectUnharmed(): Promise<void> {
      for (const holder of holders) {
        const { state, events } = await holder.ask("pause");
        const names = new Set(events.map(({ name }) => name));
        expect({ state, lost: names.has("lost"), switched: names.has("switched") }).toEqual({
          state: "held",
          lost: false,
          switched: false,
        });
        expect((await holder.ask("close")).state).toBe("closed");
      }
      const all = [...holders.flatMap((holder) => holder.ids()), ...others];
      expect(holders.every((holder) => holder.ids().length > 0)).toBe(true);
      expect(new Set(all).size).toBe(all.length);
    }

    /** Clients that lease, make IDs and give back, over and over, each step by way of another daemon, until told to end. */
    async function comeAndGo(addresses: readonly string[], goesOn: () => boolean): Promise<void> {
      const views = addresses.map((_, i) => daemonRegistry(rotated(addresses, i), { operationTimeout }));
      const live = async (views: readonly Registry[]): Promise<void> => {
        const turns = inTurn(views);
        const next = (): Registry => turns.next().value;
        const roaming: Registry = {
          ...next(),
          claim: (request) => next().claim(request),
          renew: (request) => next().renew(request),
          release: (request) => next().release(request),
        };
        const host = { registry: roaming, clock: systemClock, makeToken: () => randomBytes(16).toString("hex") };
        const terms = { ...defaults, namespace, window, operationTimeout, layout: defaultLayout };
        const lease = await Lease.claim(host, { ...terms, pool: defaultLayout.pool });
        const ids = new Snowflake(lease);
        for (let i = 0; i < 50; i++) others.push(await ids.nextAsync());
        expect(await lease.renew()).toBe(true);
        for (let i = 0; i < 50; i++) others.push(await ids.nextAsync());
        await ids.close();
      };
      const client = async (first: number): Promise<void> => {
        while (goesOn()) await live(rotated(views, first));
      };
      await Promise.all(views.map((_, i) => client(i)));
      await Promise.all(views.map((view) => view.close()));
    }

    /** A hand-written client of `ids`: asks the next daemon where one does not answer. */
    async function askForIds(goesOn: () => boolean): Promise<void> {
      const turns = inTurn(daemons.map(({ url }) => url));
      while (goesOn()) {
        const url = turns.next().value;
        try {
          const init = { method: "POST", headers: { "content-type": "application/json" }, body: '{"count":100}' };
          const answer = await fetch(`${url}/v1/${namespace}/ids`, { ...init, signal: AbortSignal.timeout(500) });
          const { ids } = (await answer.json()) as { ids?: string[] };
          others.push(...(ids ?? []).map(BigInt));
        } catch {
          // What was made for an answer that never came is nobody's.
        }
        await sleep(5);
      }
    }

    /** Clients of every kind, while something happens to the daemons. */
    async function underLoad(happening: () => Promise<void>): Promise<void> {
      const addresses = daemons.map(({ url }) => url);
      await startHolders(addresses);
      let over = false;
      const goesOn = (): boolean => !over;
      const load = Promise.all([comeAndGo(addresses, goesOn), askForIds(goesOn)]);
      try {
        await Promise.race([happening(), load]);
      } finally {
        over = true;
      }
      await load;
      expect(others.length).toBeGreaterThan(0);
      await expectUnharmed();
    }

    test("one killed with -9, one stopped and woken, all drained and started again in turn", { timeout }, async () => {
      await underLoad(async () => {
        const [killed, stopped] = daemons as [DaemonProcess, DaemonProcess, DaemonProcess];
        await killed.end("SIGKILL");
        await allRenewed();
        daemons[0] = await startDaemonProcess(server.url(), killed.port);
        stopped.signal("SIGSTOP");
        await allRenewed();
        // What it was asked meanwhile comes late.
        stopped.signal("SIGCONT");
        for (const [i, daemon] of daemons.entries()) {
          expect(await daemon.end("SIGTERM")).toBe(0);
          daemons[i] = await startDaemonProcess(server.url(), daemon.port);
        }
        await allRenewed();
      });
    });

    // From here on, it is the same whatever the store.
    if (name !== "Redis") return;

    test("each behind a network that swallows everything, in turn: leases are renewed by way of another one", async () => {
      const proxies = await Promise.all(daemons.map(({ port }) => FaultProxy.start(port)));
      onTestFinished(async () => {
        await Promise.all(proxies.map((proxy) => proxy.stop()));
      });
      await startHolders(proxies.map(({ port }) => `http://127.0.0.1:${port}`));
      for (const proxy of proxies) {
        proxy.set(blackHole);
        await allRenewed();
        proxy.heal();
      }
      await expectUnharmed();
    });

    test("one does not know the token, one tells to wait, one answers nonsense: the next one is asked", async () => {
      const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      const tokens = join(folder, "tokens");
      const sha256 = createHash("sha256").update("another").digest("hex");
      writeFileSync(tokens, `${sha256} worker\n`, { mode: 0o600 });
      const closed = await startDaemonProcess(server.url(), 0, ["--tokens", tokens]);
      const busy = await startDaemonProcess(server.url(), 0, ["--claims-per-second", "1"]);
      onTestFinished(async () => {
        await Promise.all([closed, busy].map((daemon) => daemon.end("SIGKILL")));
      });
      const impostor = createServer((_, response) => response.end("<html>Welcome</html>")).listen(0, "127.0.0.1");
      await once(impostor, "listening");
      onTestFinished(() => {
        impostor.close();
        impostor.closeAllConnections();
      });
      const nonsense = `http://127.0.0.1:${(impostor.address() as AddressInfo).port}`;
      const [good = ""] = daemons.map(({ url }) => url);
      // Of this client's claims, the busy one lets through no more from here on.
      const headers = { "content-type": "application/json" };
      for (let status = 201; status === 201;) {
        const init = { method: "POST", headers, body: JSON.stringify({ now: Date.now(), windowMs: window }) };
        const answer = await fetch(`${busy.url}/v1/${namespace}/leases`, init);
        status = answer.status;
        expect([201, 429]).toContain(status);
      }

      const addresses = [closed.url, nonsense, busy.url, good];
      await startHolders(addresses);
      const end = AbortSignal.timeout(1000);
      await comeAndGo(addresses, () => !end.aborted);
      await allRenewed();
      await expectUnharmed();
    });
  });
});
