import { highestWorkerId } from "../../id/layout.ts";
import type { ServerAddress } from "../url.ts";
import type { Registry, WorkerRecord } from "../../rule/registry.ts";
import { checkNew, presentNamespace } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import {
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  noNamespace,
  released,
  renewed,
  shownRecord,
  type Stored,
} from "../../rule/window.ts";
import { claimOnce } from "./claim.ts";
import { openConnection } from "./connection.ts";
import { endOf, listClaims, pruneClaims } from "./history.ts";
import { livePaths, livesOf, seen } from "./ephemeral.ts";
import { hashOf, isIn, type Nodes } from "./nodes.ts";
import { type Kept, numberBytes, readNumber, schemaVersion } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { forgetRest } from "./rests.ts";
import type { Session, Write } from "./session.ts";
import { parseSettings } from "./address.ts";
import { again, commit } from "./commit.ts";
import { type Begun, forgetToken, guardUnused, newNamespace, put, readKept, replaceLost, Store } from "./store.ts";
import { pagesOf } from "./workers.ts";

interface ZooKeeperOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
}

const promise =
  "Acknowledged writes survive as long as a majority of the ensemble's disks does: a majority has each on disk before it is acknowledged (unless forceSync is off); holds across partitions.";

/**
 * A registry in ZooKeeper. Each operation reads what it needs, decides, and writes all of it in one transaction on the condition
 * that nothing of it has changed; where it has, it reads again. A claim takes three or four round trips, all else two.
 *
 * The clock is the leader's: every operation begins with a write to one node, and the time that the leader put to this write is
 * the time of the operation. The write also makes the reads behind it see everything that was acknowledged before. A leader whose
 * clock differs from the one before is a step of the registry's clock: it decides how soon a number is used again, nothing else.
 *
 * An ephemeral node says that the session of a worker ID's holder lives. Without it, the claim counts as given up: it is shown as
 * resting, and ended without force. The window stays closed, and the holder may renew all the same, which brings the node back.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING. It connects when it is first asked.
 */
export async function zooKeeperRegistry(
  address: ServerAddress,
  { operationTimeout }: ZooKeeperOptions,
): Promise<Registry> {
  const { chroot, ...settings } = parseSettings(address);
  const connection = await openConnection(address, { ...settings, operationTimeout });
  const store = new Store(connection, chroot, operationTimeout);

  /** What is known of a namespace and nothing else. */
  function look(deadline: number, nodes: Nodes): Promise<Begun<undefined>> {
    return store.begin(deadline, nodes, async () => undefined);
  }

  /** A worker ID's record, and the ephemeral nodes that name it. */
  const withLives =
    (nodes: Nodes, workerId: number) =>
    (session: Session): Promise<[Kept | undefined, ReadonlyMap<string, string>]> =>
      Promise.all([readKept(session, nodes, workerId), livesOf(session, nodes, workerId)]);

  const registry: Registry = {
    kind: "zookeeper",

    async init(request) {
      const { namespace, layout } = request;
      const info = await store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { info } = await look(deadline, nodes);
        if (info === undefined) {
          await store.makeNamespace(deadline, nodes, newNamespace(layout, request));
          return again;
        }
        checkLayout(namespace, layout, info);
        checkLimits(namespace, request, info);
        return info;
      });
      await checkNew(registry, request);
      return info;
    },

    describe: async (namespace) => {
      const { info } = await store.run(({ deadline }) => look(deadline, store.nodes(namespace)));
      return info;
    },

    claim: (request) => store.run((moment) => claimOnce(store, request, moment)),

    renew: (asked) =>
      store.run(async ({ deadline, waited }) => {
        const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
        const { namespace, workerId, token, window } = request;
        const nodes = store.nodes(namespace);
        const read = (session: Session): Promise<Kept | undefined> => readKept(session, nodes, workerId);
        const { clock, info, read: kept, session } = await store.begin(deadline, nodes, read);
        if (info === undefined) return { outcome: "lost" };
        checkWindow(window, info);
        checkSkew(request.clock, clock, info);
        const after = renewed(kept?.stored, request, clock);
        if (after === undefined || kept === undefined) {
          if (kept?.stored.token !== token) await store.lives.remove(deadline, nodes, workerId, token);
          return { outcome: "lost" };
        }
        const name = nodes.live(workerId, token);
        const lives = store.lives.has(session, name);
        const writes: Write[] = [...put(nodes, after, kept), ...(lives ? [] : [newLive(name)])];
        const done = await commit(connection, deadline, writes);
        if (done.session === undefined) return again;
        // Not where its time came meanwhile: the next renewal makes it again.
        if (!lives || store.lives.has(done.session, name)) store.lives.note(done.session, nodes, after, clock);
        return { outcome: "renewed", from: after.from, until: after.until, clock };
      }),

    release: (asked) =>
      store.run(async ({ deadline, waited }) => {
        const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
        const { namespace, workerId, token } = request;
        const nodes = store.nodes(namespace);
        const { clock, read } = await store.begin(deadline, nodes, withLives(nodes, workerId));
        const [kept, lives] = read;
        const after = released(kept?.stored, request, clock);
        if (after === undefined || kept === undefined) {
          if (kept?.stored.token !== token) await store.lives.remove(deadline, nodes, workerId, token);
          return { outcome: "lost" };
        }
        if (after === kept.stored) return { outcome: "released" };
        const writes: Write[] = [
          ...put(nodes, after, kept),
          ...forgetToken(nodes, kept),
          ...endOf(nodes, kept.stored, after.until, clock, "released"),
          ...livePaths(nodes, workerId, lives, token).map((path) => ({ op: "remove", path }) as const),
        ];
        // Where an ephemeral node goes, that tells of it.
        const also = (session: Session): Promise<unknown>[] =>
          [...lives.values()].includes(token) ? [] : [forgetRest(session, nodes, workerId)];
        if ((await commit(connection, deadline, writes, { also })).session === undefined) return again;
        store.lives.forget(nodes.live(workerId, token));
        return { outcome: "released" };
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      // Nobody takes worker IDs here without keeping a window.
      if (state === "foreign" || most === 0) return found;
      for await (const { clock, records } of pagesOf(store, namespace, after)) {
        const all = records.map(({ shown }) => shownRecord(shown, clock));
        found.push(...all.filter((record) => state === undefined || record.state === state));
        if (found.length >= most) break;
      }
      return found.slice(0, most);
    },

    worker: (namespace, workerId) =>
      store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { clock, read } = await store.begin(deadline, nodes, withLives(nodes, workerId));
        const [kept, lives] = read;
        return kept && shownRecord(seen(kept.stored, lives.values()), clock);
      }),

    history: (namespace, workerId, range = {}) =>
      store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { read: kept } = await store.begin(deadline, nodes, (session) => readKept(session, nodes, workerId));
        return kept === undefined ? [] : listClaims(connection, deadline, nodes, kept.stored, range);
      }),

    forceRelease: (request) =>
      store.run(async ({ deadline }) => {
        const { namespace, workerId, resetWindow = false } = request;
        const nodes = store.nodes(namespace);
        const { clock, read } = await store.begin(deadline, nodes, withLives(nodes, workerId));
        const [kept, lives] = read;
        const refusal = forceRefusal(kept && seen(kept.stored, lives.values()), request, clock);
        if (refusal !== undefined || kept === undefined) return refusal ?? { outcome: "absent" };
        const after = forced(kept.stored, clock, resetWindow);
        const writes = [
          ...put(nodes, after, kept),
          ...forgetToken(nodes, kept),
          ...endOf(nodes, kept.stored, after.until, clock, resetWindow ? "reset" : "forced"),
        ];
        const also = (session: Session): Promise<unknown>[] => [forgetRest(session, nodes, workerId)];
        const done = await commit(connection, deadline, writes, { also });
        return done.session === undefined ? again : { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) =>
      store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { clock, info, read } = await store.begin(deadline, nodes, (session) =>
          Promise.all([readKept(session, nodes, workerId), session.get(nodes.bands)]),
        );
        if (info === undefined) throw noNamespace(namespace);
        checkPin({ workerId, reason, owner }, highestWorkerId(info.layout), clock, info);
        const [kept, bands] = read;
        const before = kept?.stored ?? unusedRecord(workerId);
        const writes: Write[] = [
          ...put(nodes, pinnedRecord(before, reason, owner), kept),
          ...(kept ? guardUnused(nodes, kept, bands) : []),
          ...forgetOwner(nodes, before, owner?.ip),
          ...(owner && owner.ip !== before.owner ? [newNode(nodes.ofOwner(owner.ip, workerId))] : []),
        ];
        const done = await commit(connection, deadline, writes, {
          folders: [...store.foldersFor(nodes, workerId), ...(owner ? [nodes.owner(owner.ip)] : [])],
        });
        if (done.session !== undefined) return undefined;
        const lost = done.beaten?.path === nodes.rows(workerId);
        if (lost) await replaceLost(store, deadline, nodes, workerId, info, clock);
        return again;
      }),

    unpin(namespace, workerId) {
      let tried = false;
      return store.run(async ({ deadline }) => {
        const nodes = store.nodes(namespace);
        const { read } = await store.begin(deadline, nodes, (session) =>
          Promise.all([readKept(session, nodes, workerId), session.list(nodes.bands), session.get(nodes.bands)]),
        );
        const [kept, pools = [], bands] = read;
        // One whose answer was lost may have done it.
        if (kept?.stored.pinned === undefined) return tried;
        const writes =
          kept.stored.fence === 0
            ? [...(await forgetUnused(deadline, nodes, kept, pools)), ...guardUnused(nodes, kept, bands)]
            : put(nodes, unpinnedRecord(kept.stored), kept);
        writes.push(...forgetOwner(nodes, kept.stored));
        tried = true;
        const also = (session: Session): Promise<unknown>[] => [forgetRest(session, nodes, workerId)];
        const done = await commit(connection, deadline, writes, { also });
        tried = false;
        return done.session === undefined ? again : true;
      });
    },

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      const nodes = store.nodes(namespace);
      let pruned = 0;
      for await (const { records } of pagesOf(store, namespace, -1)) {
        for (const { stored } of records) {
          pruned += await store.run(({ deadline }) => pruneClaims(connection, deadline, nodes, stored, before));
        }
      }
      return pruned;
    },

    rehearse: (namespace) => store.run(({ deadline }) => rehearse(store, deadline, store.nodes(namespace))),

    ping: () =>
      store.run(async ({ deadline }) => ({ clock: await store.now(deadline), promise, schema: schemaVersion })),

    close: () => store.close(),
  };
  return registry;

  /** The writes by which a number that was only ever pinned is unused again: for the hints of all pools, too. */
  async function forgetUnused(deadline: number, nodes: Nodes, kept: Kept, pools: readonly string[]): Promise<Write[]> {
    const { workerId } = kept.stored;
    const around = pools.flatMap((name) => {
      const [, first, last] = /^(\d+)-(\d+)$/.exec(name) ?? [];
      const pool = { first: Number(first), last: Number(last) };
      return isIn(pool, workerId) ? [nodes.next(pool)] : [];
    });
    const hints = await connection.exchange(deadline, (session) =>
      Promise.all(around.map((path) => session.get(path))),
    );
    const lowered = around.flatMap((path, i): Write[] => {
      const node = hints[i];
      if (node === undefined) return [];
      // Also where it says less: somebody who is about to raise it must notice.
      const data = numberBytes(Math.min(readNumber(node, path), workerId));
      return [{ op: "set", path, data, version: node.version }];
    });
    return [
      { op: "remove", path: nodes.state(workerId), version: kept.version },
      { op: "remove", path: nodes.rows(workerId) },
      ...lowered,
    ];
  }
}

/** The write that takes a worker ID from those that are pinned for an address, unless it stays one. */
function forgetOwner(nodes: Nodes, { workerId, owner }: Stored, next?: string): Write[] {
  return owner === undefined || owner === next ? [] : [{ op: "remove", path: nodes.ofOwner(owner, workerId) }];
}

function newNode(path: string): Write {
  return { op: "create", path };
}

function newLive(path: string): Write {
  return { op: "create", path, live: true };
}
