import type { PoolBounds } from "../../id/pool-bounds.ts";
import { monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Decision, decideClaim, look, type PoolView } from "../../rule/pool.ts";
import type { ClaimRequest, NamespaceInfo } from "../../rule/registry.ts";
import { isFree, type Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { ZooKeeperSession } from "./session.ts";
import { bucketOf, bucketSize, isIn, type Nodes, numberOf, parseEphemeral } from "./nodes.ts";
import type { StoredNode } from "./records.ts";
import { noteRest, readNote, restOf } from "./rests.ts";
import { readNode } from "./store.ts";

/** Records that are looked at together: more of the same kind say nothing new most of the time. */
const few = 16;
/** Buckets whose live nodes are listed together. */
const fewBuckets = 4;
/** Buckets that are asked together how many nodes they have. */
const manyBuckets = 256;
/** Most records that are read together. */
const mostRecords = 256;
/** What a claim keeps of its time for what comes after the search, as a part of it. */
const reserve = 0.1;

/** What a claim has read of a namespace; the decision sees nothing else. */
export class Snapshot implements PoolView {
  readonly nodes: Map<number, StoredNode> = new Map<number, StoredNode>();
  /** The number to take where one that nobody ever used is wanted. */
  unused: number | undefined;
  readonly #request: ClaimRequest;
  readonly #clock: number;
  readonly #beaten: boolean;

  /** `beaten`: others reach for the same numbers at this moment, so that it takes any that is free, not the best. */
  constructor(request: ClaimRequest, clock: number, beaten: boolean) {
    this.#request = request;
    this.#clock = clock;
    this.#beaten = beaten;
  }

  /** Adds what was read of a worker ID; nothing where it was never used. */
  add(kept: StoredNode | undefined): void {
    if (kept !== undefined) this.nodes.set(kept.record.workerId, kept);
  }

  /** Forgets records that were decided about, but for these, and for what a refusal tells. */
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
    return this.#oldestOf(pool, () => true, limit);
  }

  oldestOfHost(pool: PoolBounds, host: string, limit: number): readonly Stored[] {
    return this.#oldestOf(pool, (record) => record.holder?.host === host, limit);
  }

  pinnedFor({ first, last }: PoolBounds, ip: string, limit: number): readonly Stored[] {
    return [...this.nodes.values()]
      .map(({ record }) => record)
      .filter((record) => record.owner === ip && record.workerId >= first && record.workerId <= last)
      .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId)
      .slice(0, limit);
  }

  newestOfHost(pool: PoolBounds, host: string): Stored | undefined {
    return this.#oldestOf(pool, (record) => record.holder?.host === host, Infinity, true).at(-1);
  }

  #oldestOf({ first, last }: PoolBounds, fits: (record: Stored) => boolean, limit: number, all = false): Stored[] {
    const found = [...this.nodes.values()]
      .map(({ record }) => record)
      .filter((record) => record.workerId >= first && record.workerId <= last && record.pinned === undefined)
      .filter(fits)
      .toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
    if (all || !this.#beaten) return found.slice(0, limit);
    const free = shuffled(found.filter((record) => isFree(record, this.#request, this.#clock)));
    return [...free, ...found.filter((record) => !free.includes(record))].slice(0, limit);
  }
}

/** What is known of a pool's numbers that nobody ever used. */
export interface Hint {
  /** All below it in the pool have a record. */
  readonly value: number;
  /** Of its node; undefined where there is none yet. */
  readonly version: number | undefined;
}

/** What a search is told. */
interface Task {
  readonly connection: ZooKeeperConnection;
  readonly deadline: number;
  readonly nodes: Nodes;
  readonly request: ClaimRequest;
  readonly info: NamespaceInfo;
  readonly clock: number;
  readonly snapshot: Snapshot;
  /** Worker IDs that are pinned for this host. */
  readonly pinned: readonly number[];
  /** Worker IDs of this host. */
  readonly own: readonly number[];
  readonly hint: Hint;
  readonly beaten: boolean;
}

/** What a search came to. */
interface SearchResult extends Decision {
  /** What the hint should say. */
  readonly hint: number;
}

/**
 * Looks for any worker ID of the pool: this host's own, one never used, one that nobody's session holds. Two round trips where
 * one is found, however full and however large the pool is. Only where those rest that came first the others are looked at, too,
 * until one is free: bucket by bucket, and not where another claim noted that all of a bucket rest.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE where there are more than can be looked at in time: that pool may not be full.
 */
export async function searchAny(task: Task): Promise<SearchResult> {
  const { connection, deadline, nodes, request, snapshot, own, beaten } = task;
  const { pool } = request;
  const reuses = request.reuse !== "never";
  const next = Math.max(task.hint.value, pool.first);
  const manyOwn = own.length > few;
  const all = { first: bucketOf(pool.first), last: bucketOf(pool.last) };
  const buckets = new Set(manyOwn ? shuffled([...new Set(own.map(bucketOf))]).slice(0, fewBuckets) : []);
  // The next few may be the last of the pool, and taken.
  if (reuses && next + few > pool.last) for (const bucket of sample(all, fewBuckets)) buckets.add(bucket);

  // One round trip: this host's records, numbers never used, and who is alive.
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

/** Looks at the records of numbers that nobody's session holds until one is free, bucket by bucket. */
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
      `Of the worker IDs ${pool.first} to ${pool.last} that nobody holds, the ${looked} that could be looked at within ${connection.operationTimeout} ms all rest, nothing was changed; try again, or set a longer operationTimeout.`,
      {},
      { cause },
    );
  const inTime = async <Read>(read: (session: ZooKeeperSession) => Promise<Read>): Promise<Read> => {
    if (monotonic(systemClock) > halt) throw notAll();
    try {
      return await connection.exchange(deadline, read);
    } catch (error) {
      // What was asked for last came too late: no other failure than not to have looked at all.
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
  // All others are held. Some of these tell when one may come free.
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

/** Reads records. One that nobody here wrote is left alone: whoever asks for that number, or for all, is told. */
async function readAll(session: ZooKeeperSession, { nodes, snapshot }: Task, ids: readonly number[]): Promise<void> {
  const read = async (id: number): Promise<void> => {
    try {
      const kept = await readNode(session, nodes, id);
      if (kept === undefined) snapshot.unused ??= id;
      snapshot.add(kept);
    } catch (error) {
      if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
    }
  };
  await Promise.all(ids.map(read));
}

/** From a number on, past the buckets that have all their records: the first number that may have none. */
async function skipFull({ connection, deadline, nodes, request }: Task, from: number): Promise<number> {
  const { last } = request.pool;
  // What is listed at once.
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

/** What was found among numbers from one on. */
interface Unused {
  /** All numbers of the pool below this one have a record. */
  readonly from: number;
  readonly lowest?: number | undefined;
  /** The one to take. */
  readonly pick?: number | undefined;
}

/**
 * Numbers without a record. Looks at the next few; `wide`: at a whole bucket and the one behind it, and picks any, so that many
 * who start at once do not all reach for the same.
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

/** Numbers of the pool in a bucket that no live session holds, whether they were ever used or not. */
async function listIdle(session: ZooKeeperSession, nodes: Nodes, pool: PoolBounds, bucket: number): Promise<number[]> {
  const names = (await session.list(nodes.ephemerals(bucket))) ?? [];
  const live = new Set(names.map((name) => parseEphemeral(name)?.workerId));
  const first = Math.max(pool.first, bucket * bucketSize);
  return range(first, Math.min(pool.last, (bucket + 1) * bucketSize - 1)).filter((id) => !live.has(id));
}

/** So many numbers of a pool, or all of a small one. */
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

/** Worker IDs that a claim prefers: as many as are looked at. */
export function preferredOf({ preferred = [], pool }: ClaimRequest): number[] {
  return preferred.slice(0, look).filter((id) => isIn(pool, id));
}
