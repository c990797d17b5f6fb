import type { ServerAddress } from "../../core/address.ts";
import { SnowleaseError } from "../../core/errors.ts";
import { Layout } from "../../core/layout.ts";
import { type Decision, decideClaim } from "../../core/pool.ts";
import {
  type ClaimRequest,
  defaultLimits,
  type Grant,
  type NamespaceInfo,
  type NamespaceLimits,
  type Refusal,
  type Registry,
  type WorkerRecord,
} from "../../core/registry.ts";
import {
  checkClaim,
  checkLayout,
  checkLimits,
  checkPin,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  noNamespace,
  released,
  renewed,
  shownRecord,
  type Stored,
  unusedRecord,
} from "../../core/window.ts";
import { openConnection, type Session, type Write } from "./connection.ts";
import { endOf, listClaims, pruneClaims } from "./history.ts";
import { baseOf, bucketOf, bucketSize, clockOf, hashOf, type Nodes, nodesOf, numberOf, parseLive } from "./nodes.ts";
import {
  type Kept,
  metaBytes,
  numberBytes,
  readMeta,
  readNumber,
  readRecord,
  recordBytes,
  schemaVersion,
} from "./records.ts";
import { preferredOf, readInto, searchAny, Snapshot } from "./search.ts";
import { parseSettings } from "./settings.ts";
import { again, commit, type Moment, operate } from "./steps.ts";

interface ZooKeeperOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
}

const promise =
  "Acknowledged writes survive as long as a majority of the ensemble's disks does: a majority has each on disk before it is acknowledged (unless forceSync is off); holds across partitions.";

/** Worker IDs that are remembered for a host; further ones it uses are anybody's. */
const mostOfHost = 512;
/** How far the hint may lag behind the numbers in use: each claim looks past as many. */
const hintLag = 8;
/** Records that are read at once. */
const page = 200;
/** Buckets that are listed at once. */
const bucketPage = 16;

/**
 * A registry in ZooKeeper. Each operation reads what it needs, decides, and writes all of it in one transaction on the condition
 * that nothing of it has changed; where it has, it reads again. A claim takes three or four round trips.
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
  const { sessionTimeout, chroot } = parseSettings(address);
  const connection = await openConnection(address, { sessionTimeout, operationTimeout });
  const base = baseOf(chroot);
  /** Folders of buckets that were seen or made: nobody ever deletes one. */
  const buckets = new Set<string>();
  /** The ephemeral nodes of this session. */
  const live = { session: 0, made: new Set<string>() };

  function run<Answer>(step: (moment: Moment) => Promise<Answer | typeof again>): Promise<Answer> {
    return operate(connection, operationTimeout, step);
  }

  const exchange: typeof connection.exchange = (deadline, calls) => connection.exchange(deadline, calls);

  /** What an operation begins with: the leader's clock, the namespace, and what else is read. */
  async function begin<Read>(
    deadline: number,
    nodes: Nodes,
    reads: (session: Session) => Promise<Read>,
  ): Promise<{ clock: number; info: NamespaceInfo | undefined; read: Read; session: number }> {
    const [clock, meta, read, session] = await exchange(deadline, async (session) => [
      ...(await Promise.all([session.touch(clockOf(base)), session.get(nodes.meta), reads(session)])),
      session.id,
    ]);
    const info = meta && readMeta(meta, nodes.meta);
    if (clock !== undefined) return { clock, info, read, session };
    await makeBase(deadline);
    return begin(deadline, nodes, reads);
  }

  async function makeBase(deadline: number): Promise<void> {
    const [made] = await exchange(deadline, (session) =>
      Promise.all([session.create(base), session.create(clockOf(base))]),
    );
    if (made !== "orphan") return;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `ZooKeeper ${connection.where} has no node \`${chroot}\`, which the registry URL names: create it, or correct the URL.`,
    );
  }

  /** The clock alone, for what needs no namespace. */
  async function now(deadline: number): Promise<number> {
    const clock = await exchange(deadline, (session) => session.touch(clockOf(base)));
    if (clock !== undefined) return clock;
    await makeBase(deadline);
    return now(deadline);
  }

  async function makeNamespace(deadline: number, nodes: Nodes, info: NamespaceInfo): Promise<void> {
    await exchange(deadline, (session) =>
      Promise.all([
        ...nodes.folders.map((path) => session.create(path)),
        // Last: where it is, all others are.
        session.create(nodes.meta, metaBytes(info)),
      ]),
    );
  }

  async function keptOf(session: Session, nodes: Nodes, workerId: number): Promise<Kept | undefined> {
    const node = await session.get(nodes.state(workerId));
    return node && readRecord(node, nodes.state(workerId));
  }

  /** The tokens, hashed, whose sessions live, and the names of their nodes, for one worker ID. */
  async function livesOf(session: Session, nodes: Nodes, workerId: number): Promise<Map<string, string>> {
    const names = (await session.list(nodes.lives(bucketOf(workerId)))) ?? [];
    const found = names.map((name) => [name, parseLive(name)] as const);
    return new Map(found.flatMap(([name, of]) => (of?.workerId === workerId ? [[name, of.token]] : [])));
  }

  /** The record with the claim ended where the session of its holder has. */
  function seen(stored: Stored, lives: Iterable<string>): Stored {
    const { token } = stored;
    return token === undefined || [...lives].includes(token) ? stored : { ...stored, token: undefined };
  }

  /** The folders that a worker ID needs and that were not seen yet. */
  function foldersFor(nodes: Nodes, workerId: number): readonly string[] {
    const folders = nodes.bucket(bucketOf(workerId));
    return folders.every((path) => buckets.has(path)) ? [] : folders;
  }

  /** The writes that put a record where `kept` was read. */
  function put(nodes: Nodes, stored: Stored, kept: Kept | undefined, sticky = kept?.sticky ?? false): Write[] {
    const [path, data] = [nodes.state(stored.workerId), recordBytes(stored, sticky)];
    if (kept !== undefined) return [{ op: "set", path, data, version: kept.version }];
    return [
      { op: "create", path, data, contested: true },
      { op: "create", path: nodes.rows(stored.workerId) },
    ];
  }

  function forgetToken(nodes: Nodes, kept: Kept | undefined): Write[] {
    const token = kept?.stored.token;
    return token === undefined ? [] : [{ op: "remove", path: nodes.token(token) }];
  }

  /** Remembers that a node of this session says that a claim is alive. */
  function noteLive(session: number, path: string): void {
    if (live.session !== session) {
      live.made.clear();
      live.session = session;
    }
    live.made.add(path);
  }

  function isLiveHere(session: number, path: string): boolean {
    return live.session === session && live.made.has(path);
  }

  /** Takes away what says that a claim is alive which is over. That it stays would hide a free number for as long as the session. */
  async function forgetLive(deadline: number, nodes: Nodes, workerId: number, token: string): Promise<void> {
    live.made.delete(nodes.live(workerId, token));
    await exchange(deadline, async (session) => {
      const lives = await livesOf(session, nodes, workerId);
      await Promise.all(livePaths(nodes, workerId, lives, token).map((path) => session.remove(path)));
    }).catch(() => undefined);
  }

  function livePaths(nodes: Nodes, workerId: number, lives: Map<string, string>, token: string): string[] {
    return [...lives].flatMap(([name, of]) => (of === token ? [`${nodes.lives(bucketOf(workerId))}/${name}`] : []));
  }

  async function claim(
    asked: ClaimRequest,
    { deadline, waited, beaten }: Moment,
  ): Promise<Grant | Refusal | typeof again> {
    // The claimer's clock went on while this waited; unmoved, it would look like one that was turned back.
    const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
    const { namespace, token, workerId, pool, holder, limits = {} } = request;
    const nodes = nodesOf(base, namespace);
    const named = workerId === undefined ? preferredOf(request) : isIn(pool, workerId) ? [workerId] : [];
    const {
      clock,
      info,
      read: [owner, hosts, next, ...records],
    } = await begin(deadline, nodes, (session) =>
      Promise.all([
        session.get(nodes.token(token)),
        session.list(nodes.host(holder.host)),
        session.get(nodes.next(pool)),
        ...named.map((id) => keptOf(session, nodes, id)),
      ]),
    );
    const rules = info ?? newNamespace(request);
    checkLimits(namespace, limits, rules);
    checkClaim(request, clock, rules);
    if (info === undefined) {
      await makeNamespace(deadline, nodes, rules);
      return claim(asked, { deadline, waited, beaten });
    }

    const snapshot = new Snapshot(request, clock, beaten > 0);
    for (const kept of records) if (kept !== undefined) snapshot.kept.set(kept.stored.workerId, kept);
    if (owner !== undefined) {
      const held = readNumber(owner, nodes.token(token));
      await exchange(deadline, (session) => readInto(session, nodes, snapshot, held));
      if (snapshot.byToken(token) === undefined) return again;
    }

    const hint = {
      value: next === undefined ? pool.first : readNumber(next, nodes.next(pool)),
      version: next?.version,
    };
    let decision: Decision & { readonly hint?: number };
    if (workerId !== undefined || owner !== undefined) decision = decideClaim(snapshot, request, clock, info);
    else {
      const own = (hosts ?? []).map(numberOf).filter((id) => id !== undefined && isIn(pool, id)) as number[];
      decision = await searchAny({
        connection,
        deadline,
        nodes,
        request,
        info,
        clock,
        snapshot,
        own,
        hint,
        beaten: beaten > 0,
      });
    }
    const { answer, store } = decision;
    if (store === undefined) return answer.outcome === "held" ? refusedHeld(deadline, nodes, answer, snapshot) : answer;

    const kept = snapshot.kept.get(store.workerId);
    const before = kept?.stored;
    const stays = kept?.sticky === true && before?.holder?.host === holder.host;
    const sticky = stays || (hosts?.length ?? 0) < mostOfHost;
    const left = kept?.sticky === true && !stays && before?.holder !== undefined ? before.holder.host : undefined;
    const name = nodes.live(store.workerId, token);
    const writes: Write[] = [
      ...put(nodes, store, kept, sticky),
      { op: "create", path: nodes.token(token), data: numberBytes(store.workerId), contested: true },
      ...forgetToken(nodes, kept),
      ...endOf(nodes, before, before?.until ?? 0, clock, "taken-over"),
      ...(sticky && !stays ? [{ op: "create", path: nodes.ofHost(holder.host, store.workerId) } as const] : []),
      ...(left === undefined ? [] : [{ op: "remove", path: nodes.ofHost(left, store.workerId) } as const]),
      { op: "create", path: name, live: true },
    ];
    const folders = [
      ...foldersFor(nodes, store.workerId),
      ...(sticky && hosts === undefined ? [nodes.host(holder.host)] : []),
    ];
    const session = await commit(connection, deadline, writes, {
      folders,
      also: (session) => [
        ...moveHint(session, nodes.next(pool), pool, hint, decision.hint),
        // Where it was the host's last.
        ...(left === undefined ? [] : [session.remove(nodes.host(left))]),
      ],
    });
    if (session === undefined) return again;
    for (const path of nodes.bucket(bucketOf(store.workerId))) buckets.add(path);
    noteLive(session, name);
    return answer;
  }

  /** A holder whose session has ended is shown as gone. */
  async function refusedHeld(
    deadline: number,
    nodes: Nodes,
    answer: Extract<Refusal, { outcome: "held" }>,
    snapshot: Snapshot,
  ): Promise<Refusal> {
    const { workerId } = answer;
    if (!answer.live) return answer;
    const lives = await exchange(deadline, (session) => livesOf(session, nodes, workerId));
    const token = snapshot.byId(workerId)?.token;
    return { ...answer, live: token !== undefined && [...lives.values()].includes(token) };
  }

  /** Pages of records of used or pinned worker IDs above one, in ascending order. */
  async function* pages(namespace: string, after: number): AsyncGenerator<{ clock: number; records: Seen[] }> {
    const nodes = nodesOf(base, namespace);
    const { info } = await run(({ deadline }) => begin(deadline, nodes, async () => undefined));
    if (info === undefined) return;
    const known = await run(({ deadline }) => bucketsOf(deadline, nodes, info));
    const left = known.filter((bucket) => bucket >= bucketOf(after));
    while (left.length > 0) {
      const some = left.splice(0, bucketPage);
      const lists = await run(({ deadline }) =>
        exchange(deadline, (session) => Promise.all(some.map((each) => session.list(nodes.states(each))))),
      );
      for (const [i, names = []] of lists.entries()) {
        const ids = names.map(numberOf).filter((id) => id !== undefined && id > after) as number[];
        ids.sort((a, b) => a - b);
        while (ids.length > 0) yield readPage(nodes, some[i] ?? 0, ids.splice(0, page));
      }
    }
  }

  /** Buckets that may have records, in ascending order. */
  async function bucketsOf(deadline: number, nodes: Nodes, { layout }: NamespaceInfo): Promise<number[]> {
    const count = await exchange(deadline, (session) => session.count(nodes.buckets));
    if ((count ?? 0) > bucketSize) {
      return Array.from({ length: bucketOf(Layout.parse(layout).pool.last) + 1 }, (_, i) => i);
    }
    const names = (await exchange(deadline, (session) => session.list(nodes.buckets))) ?? [];
    return names.map(Number).toSorted((a, b) => a - b);
  }

  async function readPage(nodes: Nodes, bucket: number, ids: number[]): Promise<{ clock: number; records: Seen[] }> {
    const { clock, read } = await run(({ deadline }) =>
      begin(deadline, nodes, (session) =>
        Promise.all([session.list(nodes.lives(bucket)), ...ids.map((id) => keptOf(session, nodes, id))]),
      ),
    );
    const [names, ...kept] = read;
    const tokens = new Set((names ?? []).map((name) => parseLive(name)?.token));
    const records = kept.flatMap((each) => {
      if (each === undefined) return [];
      const { stored } = each;
      const isThere = stored.token !== undefined && tokens.has(stored.token);
      return [{ stored, shown: isThere ? stored : { ...stored, token: undefined } }];
    });
    return { clock, records };
  }

  return {
    kind: "zookeeper",

    init: (request) =>
      run(async ({ deadline }) => {
        const { namespace, layout } = request;
        const nodes = nodesOf(base, namespace);
        const { info } = await begin(deadline, nodes, async () => undefined);
        if (info === undefined) {
          await makeNamespace(deadline, nodes, newNamespace({ layout, limits: request }));
          return again;
        }
        checkLayout(namespace, layout, info);
        checkLimits(namespace, request, info);
        return info;
      }),

    describe: async (namespace) => {
      const nodes = nodesOf(base, namespace);
      return (await run(({ deadline }) => begin(deadline, nodes, async () => undefined))).info;
    },

    claim: (request) => run((moment) => claim(request, moment)),

    renew: (asked) =>
      run(async ({ deadline, waited }) => {
        const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
        const { namespace, workerId, token, window } = request;
        const nodes = nodesOf(base, namespace);
        const {
          clock,
          info,
          read: kept,
          session,
        } = await begin(deadline, nodes, (session) => keptOf(session, nodes, workerId));
        if (info === undefined) return { outcome: "lost" };
        checkWindow(window, info);
        checkSkew(request.clock, clock, info);
        const after = renewed(kept?.stored, request, clock);
        if (after === undefined || kept === undefined) {
          if (kept?.stored.token !== token) await forgetLive(deadline, nodes, workerId, token);
          return { outcome: "lost" };
        }
        const name = nodes.live(workerId, token);
        const isThere = isLiveHere(session, name);
        const writes = [
          ...put(nodes, after, kept),
          ...(isThere ? [] : [{ op: "create", path: name, live: true } as const]),
        ];
        const done = await commit(connection, deadline, writes);
        if (done === undefined) return again;
        if (!isThere) noteLive(done, name);
        return { outcome: "renewed", from: after.from, until: after.until, clock };
      }),

    release: (asked) =>
      run(async ({ deadline, waited }) => {
        const request = { ...asked, token: hashOf(asked.token), clock: asked.clock + waited };
        const { namespace, workerId, token } = request;
        const nodes = nodesOf(base, namespace);
        const {
          clock,
          read: [kept, lives],
        } = await begin(deadline, nodes, (session) =>
          Promise.all([keptOf(session, nodes, workerId), livesOf(session, nodes, workerId)]),
        );
        const after = released(kept?.stored, request, clock);
        if (after === undefined || kept === undefined) {
          if (kept?.stored.token !== token) await forgetLive(deadline, nodes, workerId, token);
          return { outcome: "lost" };
        }
        if (after === kept.stored) return { outcome: "released" };
        const done = await commit(connection, deadline, [
          ...put(nodes, after, kept),
          ...forgetToken(nodes, kept),
          ...endOf(nodes, kept.stored, after.until, clock, "released"),
          ...livePaths(nodes, workerId, lives, token).map((path) => ({ op: "remove", path }) as const),
        ]);
        if (done === undefined) return again;
        live.made.delete(nodes.live(workerId, token));
        return { outcome: "released" };
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      // Nobody takes worker IDs here without keeping a window.
      if (state === "foreign" || most === 0) return found;
      for await (const { clock, records } of pages(namespace, after)) {
        const all = records.map(({ shown }) => shownRecord(shown, clock));
        found.push(...all.filter((record) => state === undefined || record.state === state));
        if (found.length >= most) break;
      }
      return found.slice(0, most);
    },

    async worker(namespace, workerId) {
      const nodes = nodesOf(base, namespace);
      const { clock, read } = await run(({ deadline }) =>
        begin(deadline, nodes, (session) =>
          Promise.all([keptOf(session, nodes, workerId), livesOf(session, nodes, workerId)]),
        ),
      );
      const [kept, lives] = read;
      return kept && shownRecord(seen(kept.stored, lives.values()), clock);
    },

    history: (namespace, workerId, range = {}) =>
      run(async ({ deadline }) => {
        const nodes = nodesOf(base, namespace);
        const { read: kept } = await begin(deadline, nodes, (session) => keptOf(session, nodes, workerId));
        return kept === undefined ? [] : listClaims(connection, deadline, nodes, kept.stored, range);
      }),

    forceRelease: ({ namespace, workerId, force, resetWindow = false }) =>
      run(async ({ deadline }) => {
        const nodes = nodesOf(base, namespace);
        const {
          clock,
          read: [kept, lives],
        } = await begin(deadline, nodes, (session) =>
          Promise.all([keptOf(session, nodes, workerId), livesOf(session, nodes, workerId)]),
        );
        const refusal = forceRefusal(kept && seen(kept.stored, lives.values()), force, clock);
        if (refusal !== undefined) return refusal;
        if (kept === undefined) return { outcome: "absent" };
        const after = forced(kept.stored, clock, resetWindow);
        const done = await commit(connection, deadline, [
          ...put(nodes, after, kept),
          ...forgetToken(nodes, kept),
          ...endOf(nodes, kept.stored, after.until, clock, resetWindow ? "reset" : "forced"),
        ]);
        return done === undefined ? again : { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason) =>
      run(async ({ deadline }) => {
        const nodes = nodesOf(base, namespace);
        const { info, read: kept } = await begin(deadline, nodes, (session) =>
          isName(workerId) ? keptOf(session, nodes, workerId) : Promise.resolve(undefined),
        );
        if (info === undefined) throw noNamespace(namespace);
        checkPin(workerId, reason, info);
        const after = { ...(kept?.stored ?? unusedRecord(workerId)), pinned: reason };
        const folders = foldersFor(nodes, workerId);
        return (await commit(connection, deadline, put(nodes, after, kept), { folders })) === undefined
          ? again
          : undefined;
      }),

    async unpin(namespace, workerId) {
      let tried = false;
      return run(async ({ deadline }) => {
        const nodes = nodesOf(base, namespace);
        const {
          read: [kept, bands],
        } = await begin(deadline, nodes, (session) =>
          Promise.all([keptOf(session, nodes, workerId), session.list(nodes.bands)]),
        );
        // One whose answer was lost may have done it.
        if (kept?.stored.pinned === undefined) return tried;
        const writes =
          kept.stored.fence === 0
            ? await forgetUnused(deadline, nodes, kept, bands ?? [])
            : put(nodes, { ...kept.stored, pinned: undefined }, kept);
        tried = true;
        return (await commit(connection, deadline, writes)) === undefined ? again : true;
      });
    },

    async prune(namespace, before) {
      const nodes = nodesOf(base, namespace);
      let pruned = 0;
      for await (const { records } of pages(namespace, -1)) {
        for (const { stored } of records) {
          pruned += await run(({ deadline }) => pruneClaims(connection, deadline, nodes, stored, before));
        }
      }
      return pruned;
    },

    ping: () => run(async ({ deadline }) => ({ clock: await now(deadline), promise, schema: schemaVersion })),

    close: () => connection.close(),
  };

  /** The writes by which a number that was only ever pinned is unused again: for the hints of all pools, too. */
  async function forgetUnused(deadline: number, nodes: Nodes, kept: Kept, bands: readonly string[]): Promise<Write[]> {
    const { workerId } = kept.stored;
    const around = bands.flatMap((name) => {
      const [, first, last] = /^(\d+)-(\d+)$/.exec(name) ?? [];
      const pool = { first: Number(first), last: Number(last) };
      return isIn(pool, workerId) ? [nodes.next(pool)] : [];
    });
    const hints = await exchange(deadline, (session) => Promise.all(around.map((path) => session.get(path))));
    const lowered = around.flatMap((path, i): Write[] => {
      const node = hints[i];
      if (node === undefined) return [];
      // Also where it says less: somebody who is about to raise it must not know nothing of this.
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

interface Seen {
  readonly stored: Stored;
  /** As it is shown: with the claim ended where the session of its holder has. */
  readonly shown: Stored;
}

function newNamespace({
  layout,
  limits = {},
}: {
  layout: string;
  limits?: Partial<NamespaceLimits> | undefined;
}): NamespaceInfo {
  return {
    layout,
    maxWindow: limits.maxWindow ?? defaultLimits.maxWindow,
    maxClockSkew: limits.maxClockSkew ?? defaultLimits.maxClockSkew,
  };
}

function isIn({ first, last }: { first: number; last: number }, workerId: number): boolean {
  return isName(workerId) && workerId >= first && workerId <= last;
}

/** Whether a number can name a node. */
function isName(workerId: number): boolean {
  return Number.isSafeInteger(workerId) && workerId >= 0;
}

/** Makes the hint of a pool, or raises it where it has fallen behind: nobody waits for that, and nobody minds if it fails. */
function moveHint(
  session: Session,
  path: string,
  { first, last }: { first: number; last: number },
  hint: { readonly value: number; readonly version: number | undefined },
  to: number | undefined,
): Promise<unknown>[] {
  if (to === undefined) return [];
  // Made with what is always right: another value needs a version that shows that nothing was forgotten since.
  if (hint.version === undefined) return [session.create(path, numberBytes(first))];
  const raises = to > hint.value && (to - hint.value >= hintLag || to > last);
  return raises ? [session.set(path, numberBytes(to), hint.version)] : [];
}
