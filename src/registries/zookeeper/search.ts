import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Decision, decideClaim, look, type PoolView } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { ZooKeeperSession } from "./session.ts";
import { bucketOf, bucketSize, type Nodes, numberOf, parseEphemeral } from "./nodes.ts";
import type { StoredNode } from "./records.ts";
import { noteRest, readNote, restOf } from "./rests.ts";
import { readNode } from "./store.ts";

/** How many records are read together first: mostly, further ones would not help. */
const few = 16;
/** Buckets whose ephemeral nodes are listed together. */
const fewBuckets = 4;
/** Buckets whose nodes are counted together. */
const manyBuckets = 256;
/** Most records that are read together. */
const mostRecords = 256;
/** The part of the operation's time that the search leaves to the commit. */
const reserve = 0.1;

/** The records that a claim has read. The decision sees only these. */
export class ClaimView implements PoolView {
  readonly nodes: Map<number, StoredNode> = new Map<number, StoredNode>();
  /** A number that was never used. */
  unused: number | undefined;
  readonly #request: ClaimRequest;
  readonly #clock: number;
  readonly #beaten: boolean;

  /** `beaten`: other claims reach for the same numbers at this moment, so the decision takes any free one. */
  constructor(request: ClaimRequest, clock: number, beaten: boolean) {
    this.#request = request;
    this.#clock = clock;
    this.#beaten = beaten;
  }

  /** Adds the record of a worker ID; undefined where it was never used. */
  add(node: StoredNode | undefined): void {
    if (node !== undefined) this.nodes.set(node.record.workerId, node);
  }

  /** Forgets the records of earlier decisions, except these, and except the oldest, which a refusal needs. */
  trim(pool: PoolBounds, but: ReadonlySet<number>): void {
    const oldest = new Set(this.oldest(pool, look).map(({ workerId }) => workerId));
    for (const workerId of this.nodes.keys()) {
      if (!but.has(workerId) && !oldest.has(workerId)) this.nodes.delete(workerId);
    }
  }

  byToken(token: string): Stored | undefined {
    for (const { record } of this.nodes.values()) if (record.token === token) return record;
    return undefined;
  }

  byId(workerId: number): Stored | undefined {
    return this.nodes.get(workerId)?.record;
  }

  firstUnused(): number | undefined {
    return this.unused;
  }

  oldest(pool: PoolBounds, limit: number): readonly Stored[] {
    return this.#firstOf(
      this.#sorted(pool, ({ pinned }) => pinned === undefined),
      limit,
    );
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#firstOf(this.#ofHost(pool, host), limit);
  }

  pinnedFor(pool: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return this.#sorted(pool, ({ owner }) => owner === ip).slice(0, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#ofHost(pool, host).at(-1);
  }

  #ofHost(pool: PoolBounds, host: string): readonly Stored[] {
    return this.#sorted(pool, ({ pinned, holder }) => pinned === undefined && holder?.host === host);
  }

  /** Records of the pool, the oldest `until` first. */
  #sorted(pool: PoolBounds, fits: (record: Stored) => boolean): readonly Stored[] {
    return [...this.nodes.values()]
      .map(({ record }) => record)
      .filter((record) => isIn(pool, record.workerId) && fits(record))
      .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
  }

  #firstOf(records: readonly Stored[], limit: number): readonly Stored[] {
    if (!this.#beaten) return records.slice(0, limit);
    const free = shuffled(records.filter((record) => isFree(record, this.#request, this.#clock)));
    return [...free, ...records.filter((record) => !free.includes(record))].slice(0, limit);
  }
}

/** Where the unused numbers of a pool begin. */
export interface Hint {
  /** All numbers of the pool below it have a record. */
  readonly value: number;
  /** The version of its node; undefined where that does not exist yet. */
  readonly version: number | undefined;
}

/** What a search works with. */
interface Task {
  readonly connection: ZooKeeperConnection;
  readonly deadline: number;
  readonly nodes: Nodes;
  readonly request: ClaimRequest;
  readonly info: NamespaceInfo;
  readonly clock: number;
  readonly snapshot: ClaimView;
  /** Worker IDs that are pinned for this host. */
  readonly pinned: readonly number[];
  /** Worker IDs that this host used. */
  readonly own: readonly number[];
  readonly hint: Hint;
  readonly beaten: boolean;
}

/** The result of a search. */
interface SearchResult extends Decision {
  /** The value that the hint should have. */
  readonly hint: number;
}

/**
 * Searches any worker ID of the pool: one that this host used, an unused one, an idle one. Mostly this takes two round trips, however
 * full and large the pool is. Only where a sample of the idle numbers rests, it reads all of them, until one is free: bucket by bucket,
 * except the buckets of which another claim noted that all their idle numbers rest.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE where there is no time to read all of them: the pool may not be full.
 */
export async function searchAny(task: Task): Promise<SearchResult> {
  const { connection, deadline, nodes, request, snapshot, own, beaten } = task;
  const { pool } = request;
  const reuses = request.reuse !== "never";
  const next = Math.max(task.hint.value, pool.first);
  const manyOwn = own.length > few;
  const all = { first: bucketOf(pool.first), last: bucketOf(pool.last) };
  const buckets = new Set(manyOwn ? shuffled([...new Set(own.map(bucketOf))]).slice(0, fewBuckets) : []);
  // The next few numbers may be the last ones of the pool, and used.
  if (reuses && next + few > pool.last) for (const bucket of sample(all, fewBuckets)) buckets.add(bucket);

  // One round trip: the records of this host, unused numbers, and idle ones.
  const [, found, idle] = await connection.exchange(deadline, (session) =>
    Promise.all([
      readAll(session, task, [...task.pinned, ...(manyOwn ? [] : own)]),
      next > pool.last ? { from: pool.last + 1 } : findUnused(session, nodes, pool, next, beaten),
      Promise.all([...buckets].map((bucket) => listIdle(session, nodes, pool, bucket))),
    ]),
  );
  let unused: Unused = found;
  while (unused.pick === undefined && unused.from <= pool.last) {
    const from = await skipFull(task, unused.from);
    unused =
      from > pool.last
        ? { from }
        : await connection.exchange(deadline, (session) => findUnused(session, nodes, pool, from, true));
  }
  const { pick, lowest, from: hint } = unused;
  snapshot.unused = beaten ? pick : lowest;

  const ids = shuffled(idle.flat());
  const candidates = reuses && pick === undefined ? ids : [];
  const owned = new Set(own);
  const mine = manyOwn ? ids.filter((id) => owned.has(id)).slice(0, few) : [];
  const first = [...mine, ...candidates.splice(0, few)];
  if (first.length > 0) await connection.exchange(deadline, (session) => readAll(session, task, first));
  const decision = decide(task);
  if (!reuses || decision.answer.outcome !== "exhausted") return { ...decision, hint };
  return { ...(await lookThrough(task)), hint };
}

/** Reads the records of idle numbers until one is free, bucket by bucket. */
async function lookThrough(task: Task): Promise<Decision> {
  const { connection, deadline, nodes, request, snapshot, clock, info } = task;
  const { pool } = request;
  const halt = deadline - reserve * connection.operationTimeout;
  const first = new Set(snapshot.nodes.keys());
  const freeAt: number[] = [];
  let looked = 0;
  const notAll = (cause?: unknown): SnowleaseError =>
    new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `Of the worker IDs ${pool.first} to ${pool.last} without a holder, the ${looked} that could be looked at within ${connection.operationTimeout} ms all rest, nothing was changed; try again, or set a longer operationTimeout.`,
      {},
      { cause },
    );
  const inTime = async <Read>(read: (session: ZooKeeperSession) => Promise<Read>): Promise<Read> => {
    if (monotonic(systemClock) > halt) throw notAll();
    try {
      return await connection.exchange(deadline, read);
    } catch (error) {
      // The last answer came too late: the failure is that not all records were read.
      throw monotonic(systemClock) > halt ? notAll(error) : error;
    }
  };

  const buckets = shuffled(range(bucketOf(pool.first), bucketOf(pool.last)));
  while (buckets.length > 0) {
    const some = buckets.splice(0, manyBuckets);
    const counts = await inTime((session) =>
      Promise.all(some.map((bucket) => session.count(nodes.ephemerals(bucket)))),
    );
    const roomy = some.filter((_, i) => (counts[i] ?? 0) < bucketSize);
    const notes = await inTime((session) => Promise.all(roomy.map((bucket) => readNote(session, nodes, bucket, pool))));
    for (const [i, bucket] of roomy.entries()) {
      const note = notes[i];
      if (note?.until !== undefined && note.until > clock) {
        freeAt.push(note.until);
        continue;
      }
      const ids = shuffled(await inTime((session) => listIdle(session, nodes, pool, bucket)));
      const ends: (number | undefined)[] = [];
      for (let most = few; ids.length > 0; most = Math.min(4 * most, mostRecords)) {
        snapshot.trim(pool, first);
        const next = ids.splice(0, most);
        await inTime((session) => readAll(session, task, next));
        looked += next.length;
        const decision = decide(task);
        if (decision.answer.outcome !== "exhausted") return decision;
        ends.push(
          restOf(
            next.map((id) => snapshot.nodes.get(id)),
            clock + info.maxWindow,
          ),
        );
      }
      const until = ends.every((end) => end !== undefined) ? Math.min(clock + info.maxWindow, ...ends) : undefined;
      if (note === undefined || until === undefined || until <= clock) continue;
      await inTime((session) => noteRest(session, nodes, note, pool, until));
    }
  }
  // All other numbers are held. A sample of them shows when one may come free.
  const held = sample(pool, few).filter((id) => !snapshot.nodes.has(id));
  if (held.length > 0) await connection.exchange(deadline, (session) => readAll(session, task, held));
  const decision = decide(task);
  if (decision.answer.outcome !== "exhausted" || freeAt.length === 0) return decision;
  const soonest = Math.min(decision.answer.freeAt ?? Infinity, ...freeAt);
  return { ...decision, answer: { ...decision.answer, freeAt: soonest } };
}

function decide({ snapshot, request, clock, info }: Task): Decision {
  return decideClaim(snapshot, request, clock, info);
}

/** Reads records. One that Snowlease did not write is skipped: a claim of that number, or a list, reports it. */
async function readAll(session: ZooKeeperSession, { nodes, snapshot }: Task, ids: readonly number[]): Promise<void> {
  const read = async (id: number): Promise<void> => {
    try {
      const node = await readNode(session, nodes, id);
      if (node === undefined) snapshot.unused ??= id;
      snapshot.add(node);
    } catch (error) {
      if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
    }
  };
  await Promise.all(ids.map(read));
}

/** The first number from `from` on that may be unused: skips the buckets in which every number has a record. */
async function skipFull({ connection, deadline, nodes, request }: Task, from: number): Promise<number> {
  const { last } = request.pool;
  // `findUnused` lists two buckets at once.
  if (bucketOf(last) - bucketOf(from) < 2) return from;
  for (let bucket = bucketOf(from); bucket <= bucketOf(last);) {
    const some = range(bucket, Math.min(bucket + manyBuckets - 1, bucketOf(last)));
    const counts = await connection.exchange(deadline, (session) =>
      Promise.all(some.map((each) => session.count(nodes.states(each)))),
    );
    const at = counts.findIndex((count = 0) => count < bucketSize);
    if (at >= 0) return Math.max(from, (bucket + at) * bucketSize);
    bucket += some.length;
  }
  return last + 1;
}

/** The result of a search for unused numbers. */
interface Unused {
  /** All numbers of the pool below this one have a record. */
  readonly from: number;
  readonly lowest?: number | undefined;
  /** The number to take. */
  readonly pick?: number | undefined;
}

/**
 * Finds numbers without a record among the next few. `wide`: among those of a bucket and of the next one, and picks any of them: many
 * processes that start at once would all reach for the lowest.
 */
async function findUnused(
  session: ZooKeeperSession,
  nodes: Nodes,
  { last }: PoolBounds,
  from: number,
  wide: boolean,
): Promise<Unused> {
  if (!wide) {
    const ids = range(from, Math.min(from + few - 1, last));
    const there = await Promise.all(ids.map((id) => session.count(nodes.state(id))));
    const at = there.indexOf(undefined);
    const lowest = ids[at];
    return { from: lowest ?? from + ids.length, lowest, pick: lowest };
  }
  const bucket = bucketOf(from);
  const end = Math.min((bucket + 2) * bucketSize - 1, last);
  const lists = await Promise.all([bucket, bucket + 1].map((each) => session.list(nodes.states(each))));
  const taken = new Set(lists.flatMap((names) => names ?? []).map(numberOf));
  const unused = range(from, end).filter((id) => !taken.has(id));
  const [lowest] = unused;
  return { from: lowest ?? end + 1, lowest, pick: unused[Math.floor(Math.random() * unused.length)] };
}

/** The idle numbers of a bucket that belong to the pool, used or unused. */
async function listIdle(session: ZooKeeperSession, nodes: Nodes, pool: PoolBounds, bucket: number): Promise<number[]> {
  const names = (await session.list(nodes.ephemerals(bucket))) ?? [];
  const live = new Set(names.map((name) => parseEphemeral(name)?.workerId));
  const first = Math.max(pool.first, bucket * bucketSize);
  return range(first, Math.min(pool.last, (bucket + 1) * bucketSize - 1)).filter((id) => !live.has(id));
}

/** A random sample of a pool: up to `most` numbers. */
function sample({ first, last }: PoolBounds, most: number): number[] {
  const size = last - first + 1;
  if (size <= 4 * most) return shuffled(range(first, last)).slice(0, most);
  const drawn = Array.from({ length: most }, () => first + Math.floor(Math.random() * size));
  return [...new Set(drawn)];
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  const all = [...items];
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [all[i], all[j]] = [all[j] as Item, all[i] as Item];
  }
  return all;
}
