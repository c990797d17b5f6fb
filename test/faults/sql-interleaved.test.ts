import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { mysql } from "../../src/registries/sql/mysql/dialect.ts";
import { postgres } from "../../src/registries/sql/postgres/dialect.ts";
import type { ClaimKey, ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";

/*
 * Another client works between any two round trips of one operation, on the same worker ID. No two of the windows that are answered lie over one
 * another, but where an operator gave his word that their holder has stopped.
 */

/** Before a round trip of the client that is watched. */
let before: ((trip: number) => Promise<void>) | undefined;
let trips = 0;
/** The size of its pool tells it from the other one. */
const watched = 7;

for (const dialect of [postgres, mysql]) {
  const connect = dialect.connection.bind(dialect);
  vi.spyOn(dialect, "connection").mockImplementation((driver, target) => {
    const connection = connect(driver, target);
    const run = connection.run.bind(connection);
    connection.run = async (statements, edges) => {
      // Not while a session is set up.
      const isWork = target.poolSize === watched && Object.keys(connection.names).length > 0;
      if (isWork) await before?.(trips++);
      return run(statements, edges);
    };
    return connection;
  });
}

const layout = defaultLayout.fingerprint;
const limits = { maxWindow: 60_000, maxClockSkew: 1000 };
const workerId = 1;
const owner = { ip: "192.0.2.1" };

/** A window that was answered to a holder that may use it. */
interface Held {
  readonly key: ClaimKey;
  from: number;
  until: number;
}

/** One worker ID, its holder, and all that was answered. */
class Scene {
  readonly namespace: string;
  /** Of the namespace as it was made first. */
  readonly id: string | undefined;
  readonly held: Held[] = [];
  readonly #clock = Date.now();
  /** Its holder, until that has stopped. */
  first: Held | undefined;
  #isStopped = false;

  constructor(namespace: string, id: string | undefined) {
    this.namespace = namespace;
    this.id = id;
  }

  /** All of one process, as the table that Java processes see has it: only the record tells the claims from one another. */
  ask(wish: Partial<ClaimRequest> = {}): ClaimRequest {
    const holder = { host: "vm", ip: owner.ip, pid: 1, instance: "" };
    return claimRequest({ namespace: this.namespace, holder, window: 30_000, workerId, clock: this.#clock, ...wish });
  }

  async claim(registry: Registry, request: ClaimRequest): Promise<Held | undefined> {
    const answer = await registry.claim({ ...request, clock: Date.now() });
    if (answer.outcome !== "granted") return undefined;
    const held = { key: keyOf(request, answer), from: answer.from, until: answer.until };
    this.held.push(held);
    return held;
  }

  async renew(registry: Registry): Promise<void> {
    if (this.first === undefined) return;
    const answer = await registry.renew({ ...this.first.key, clock: Date.now(), window: 40_000 });
    if (answer.outcome === "renewed" && !this.#isStopped)
      this.held.push({ ...this.first, from: answer.from, until: answer.until });
  }

  /** Its holder has stopped, whatever is answered. */
  async release(registry: Registry): Promise<void> {
    if (this.first === undefined) return;
    this.#stop();
    await registry.release({ ...this.first.key, clock: Date.now(), used: { until: this.first.from } });
  }

  /** The operator's word: its holder has stopped. */
  async reset(registry: Registry): Promise<void> {
    if (this.first === undefined) return;
    this.#stop();
    const { fence } = this.first.key;
    await registry.forceRelease({ namespace: this.namespace, workerId, fence, force: true, resetWindow: true });
  }

  async remove(registry: Registry, forget: boolean): Promise<void> {
    const { era = "" } = (await registry.describe(this.namespace)) ?? {};
    await registry.remove?.({ namespace: this.namespace, era, forget });
  }

  /** It has made no ID. */
  #stop(): void {
    this.#isStopped = true;
    for (const held of this.held) if (held.key.token === this.first?.key.token) held.until = held.from;
  }

  /** Pairs that lie over one another. */
  overlaps(): readonly (readonly [Held, Held])[] {
    return this.held.flatMap((one, i) =>
      this.held
        .slice(i + 1)
        .filter((other) => other.key.token !== one.key.token && one.from < other.until && other.from < one.until)
        .map((other) => [one, other] as const),
    );
  }
}

type Work = (scene: Scene, registry: Registry) => Promise<unknown>;

const works: Readonly<Record<string, Work>> = {
  "a claim": (scene, registry) => scene.claim(registry, scene.ask()),
  "a claim of any": (scene, registry) =>
    scene.claim(registry, scene.ask({ workerId: undefined, pool: { first: workerId, last: workerId } })),
  "a renewal": (scene, registry) => scene.renew(registry),
  "a release": (scene, registry) => scene.release(registry),
  "a reset": (scene, registry) => scene.reset(registry),
  "a release, then a claim": async (scene, registry) => {
    await scene.release(registry);
    await scene.claim(registry, scene.ask());
  },
  "a reset, then a claim": async (scene, registry) => {
    await scene.reset(registry);
    await scene.claim(registry, scene.ask());
  },
  "a pin": (scene, registry) => registry.pin(scene.namespace, workerId, "kept", owner),
  "an unpin": (scene, registry) => registry.unpin(scene.namespace, workerId),
};

describe.each(databases)("between two round trips on $name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer;
    let [victim, other] = [] as unknown as [Registry, Registry];
    let scenes = 0;

    beforeAll(async () => {
      server = await start();
      victim = await openSql(server.url(`?poolSize=${watched}`), 3000);
      other = await openSql(server.url(), 1000);
    });
    afterAll(async () => {
      await Promise.all([victim.close(), other.close()]);
      await server.remove();
    });

    async function scene(): Promise<Scene> {
      const namespace = `i${++scenes}`;
      const { id } = await other.init({ namespace, layout, ...limits });
      return new Scene(namespace, id);
    }

    /** Does `work` once for each of its round trips, with something else in front of that. */
    async function interleaved(
      begin: () => Promise<Scene>,
      work: Work,
      between: Work,
      look: (scene: Scene) => Promise<void>,
    ): Promise<void> {
      let isOver = false;
      for (let at = 0; !isOver; at++) {
        const made = await begin();
        isOver = true;
        trips = 0;
        before = async (trip) => {
          if (trip !== at) return;
          isOver = false;
          await between(made, other).catch(() => undefined);
        };
        // Its answer may be an error, as that of an operator whose claim is not there any more.
        await work(made, victim).catch(() => undefined);
        before = undefined;
        await look(made);
      }
    }

    const pairs = Object.entries(works).flatMap(([name, work]) =>
      Object.entries(works).map(([inside, between]) => ({ name, work, inside, between })),
    );
    test.each(pairs)("$name, and $inside inside of it: no two windows overlap", async ({ work, between }) => {
      const held = async (): Promise<Scene> => {
        const made = await scene();
        made.first = await made.claim(other, made.ask());
        return made;
      };
      await interleaved(held, work, between, async (made) => {
        await made.renew(other);
        await made.claim(other, made.ask()).catch(() => undefined);
        expect(made.overlaps()).toEqual([]);
      });
    });

    test("a namespace that is made anew while its removal goes on keeps its tables", async () => {
      // What the removed one granted is forgotten, on the operator's word.
      const again: Work = async (made, registry) => {
        const { id } = await registry.init({ namespace: made.namespace, layout, ...limits });
        if (id !== made.id) await made.claim(registry, made.ask());
      };
      await interleaved(
        scene,
        (made, registry) => made.remove(registry, true),
        again,
        async (made) => {
          await again(made, other).catch(() => undefined);
          expect(made.overlaps()).toEqual([]);
        },
      );
    });

    test("a claim whose fence has a row already, since an older copy of its record was put back, ends once more, under its own name", async () => {
      const made = await scene();
      const { namespace } = made;
      const table = (name: string): string => `workerid_${name}_${namespace}`;
      const use = async (host: string): Promise<void> => {
        const request = made.ask({ holder: { host, ip: owner.ip, pid: 1, instance: "" }, clock: Date.now() + 1 });
        const { fence } = await granted(other, request);
        const shown = await other.history(namespace, workerId);
        expect(shown.filter((row) => row.end === undefined)).toMatchObject([{ holder: { host }, fence }]);
        const answer = await other.forceRelease({ namespace, workerId, fence, force: true, resetWindow: true });
        expect(answer.outcome).toBe("released");
      };
      await use("one");
      await server.query(`CREATE TABLE copy_${namespace} AS SELECT * FROM ${table("window")}`);
      await use("two");
      await server.query(`DELETE FROM ${table("window")}`);
      await server.query(`INSERT INTO ${table("window")} SELECT * FROM copy_${namespace}`);
      await use("three");
      const hosts = (await other.history(namespace, workerId)).map(({ fence, holder }) => [fence, holder.host]);
      expect(hosts).toEqual([
        [1, "one"],
        [2, "three"],
      ]);
    });

    test("a list of one row reads no longer than one of all", async () => {
      const made = await scene();
      const pool = { first: 0, last: 99 };
      await other.pinAll?.(
        made.namespace,
        Array.from({ length: 100 }, (_, id) => ({ workerId: id, reason: "kept" })),
      );
      await granted(other, claimRequest({ namespace: made.namespace, pool: { ...pool, last: 100 } }));
      before = async () => undefined;
      const turns = async (limit: number): Promise<number> => {
        trips = 0;
        expect(await victim.workers(made.namespace, { state: "live", limit })).toHaveLength(1);
        return trips;
      };
      expect(await turns(1)).toBe(await turns(1000));
      before = undefined;
    });
  });
});
