import { monotonic, systemClock } from "../../clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { type Decision, decideClaim } from "../../rule/pool.ts";
import type { ClaimRequest } from "../../rule/registry.ts";
import type { NamespaceState } from "../../rule/era.ts";
import type { ZooKeeperAttempt } from "./attempt.ts";
import type { ClaimView } from "./claim-view.ts";
import { shuffled } from "../shuffled.ts";
import { range, sample } from "./lots.ts";
import type { ZooKeeperSession } from "./session.ts";
import { boundsIn, bucketOf, bucketSize, numberOf, parseEphemeral } from "./nodes.ts";
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

/** Where the unused numbers of a pool begin. */
interface Hint {
  /** All numbers of the pool below it have a record. */
  readonly value: number;
  /** The version of its node; undefined where that does not exist yet. */
  readonly version: number | undefined;
}

/** What a search works with. */
interface Task {
  readonly attempt: ZooKeeperAttempt;
  readonly request: ClaimRequest;
  readonly state: NamespaceState;
  readonly view: ClaimView;
  /** Worker IDs that are pinned for this host. */
  readonly pinned: readonly number[];
  /** Worker IDs that this host used. */
  readonly own: readonly number[];
  readonly hint: Hint;
}

/**
 * Searches any worker ID of the pool: one that this host used, an unused one, an idle one. Mostly this takes two round trips, however
 * full and large the pool is. Only where a sample of the idle numbers rests, it reads all of them, until one is free: bucket by bucket,
 * except the buckets of which another claim noted that all their idle numbers rest.
 * @returns the decision, and the value that the hint should have.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE where there is no time to read all of them: the pool may not be full.
 */
export async function searchAny(task: Task): Promise<Decision & { readonly hint: number }> {
  const { attempt, request, view, own } = task;
  const { exchange, races } = attempt.tried;
  const { pool } = request;
  const reuses = request.reuse !== "never";
  const next = Math.max(task.hint.value, pool.first);
  const manyOwn = own.length > few;
  const all = { first: bucketOf(pool.first), last: bucketOf(pool.last) };
  const buckets = new Set(manyOwn ? shuffled([...new Set(own.map(bucketOf))]).slice(0, fewBuckets) : []);
  // The next few numbers may be the last ones of the pool, and used.
  if (reuses && next + few > pool.last) for (const bucket of sample(all, fewBuckets)) buckets.add(bucket);

  // One round trip: the records of this host, unused numbers, and idle ones.
  const [, found, idle] = await exchange((session) =>
    Promise.all([
      readAll(session, task, [...task.pinned, ...(manyOwn ? [] : own)]),
      next > pool.last ? { from: pool.last + 1 } : findUnused(session, task, next, races > 0),
      Promise.all([...buckets].map((bucket) => listIdle(session, task, bucket))),
    ]),
  );
  let unused: Unused = found;
  while (unused.pick === undefined && unused.from <= pool.last) {
    const from = await skipFull(task, unused.from);
    unused = from > pool.last ? { from } : await exchange((session) => findUnused(session, task, from, true));
  }
  const { pick, from: hint } = unused;
  view.unused = pick;

  const ids = shuffled(idle.flat());
  const candidates = reuses && pick === undefined ? ids : [];
  const owned = new Set(own);
  const mine = manyOwn ? ids.filter((id) => owned.has(id)).slice(0, few) : [];
  const first = [...mine, ...candidates.splice(0, few)];
  if (first.length > 0) await exchange((session) => readAll(session, task, first));
  const decision = decide(task);
  if (!reuses || decision.answer.outcome !== "exhausted") return { ...decision, hint };
  return { ...(await lookThrough(task)), hint };
}

/** Reads the records of idle numbers until one is free, bucket by bucket. */
async function lookThrough(task: Task): Promise<Decision> {
  const { attempt, request, state, view } = task;
  const { nodes } = attempt;
  const { exchange, deadline } = attempt.tried;
  const { pool } = request;
  const { operationTimeout } = attempt.store.connection;
  const halt = deadline - reserve * operationTimeout;
  /** No window ends later. */
  const latest = state.clock + state.info.maxWindow;
  const first = new Set(view.nodes.keys());
  let soonest = Infinity;
  let looked = 0;
  const notAll = (cause?: unknown): SnowleaseError =>
    new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `Of the worker IDs ${pool.first} to ${pool.last} without a holder, the ${looked} that could be looked at within ${operationTimeout} ms all rest, nothing was changed; try again, or set a longer operationTimeout.`,
      {},
      { cause },
    );
  const inTime = async <Read>(read: (session: ZooKeeperSession) => Promise<Read>): Promise<Read> => {
    if (monotonic(systemClock) > halt) throw notAll();
    try {
      return await exchange(read);
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
    const roomy = some.filter((_, i) => (counts[i]?.present ?? 0) < bucketSize);
    const notes = await inTime((session) => Promise.all(roomy.map((bucket) => readNote(session, nodes, bucket, pool))));
    for (const [i, bucket] of roomy.entries()) {
      const note = notes[i];
      if (note?.until !== undefined && note.until > state.clock) {
        soonest = Math.min(soonest, note.until);
        continue;
      }
      const ids = shuffled(await inTime((session) => listIdle(session, task, bucket)));
      const ends: (number | undefined)[] = [];
      for (let most = few; ids.length > 0; most = Math.min(4 * most, mostRecords)) {
        view.trim(pool, first);
        const next = ids.splice(0, most);
        await inTime((session) => readAll(session, task, next));
        looked += next.length;
        const decision = decide(task);
        if (decision.answer.outcome !== "exhausted") return decision;
        const found = next.map((id) => view.nodes.get(id));
        ends.push(restOf(found, latest));
      }
      const until = ends.every((end) => end !== undefined) ? Math.min(latest, ...ends) : undefined;
      if (note === undefined || until === undefined || until <= state.clock) continue;
      await inTime((session) => noteRest(session, nodes, note, pool, until));
    }
  }
  // All other numbers are held. A sample of them shows when one may come free.
  const held = sample(pool, few).filter((id) => !view.nodes.has(id));
  if (held.length > 0) await exchange((session) => readAll(session, task, held));
  const decision = decide(task);
  const { answer } = decision;
  if (answer.outcome !== "exhausted" || soonest === Infinity) return decision;
  return { answer: { ...answer, freeAt: Math.min(answer.freeAt ?? Infinity, soonest) } };
}

function decide({ view, request, state }: Task): Decision {
  return decideClaim(view, request, state);
}

/** Reads records. One that Snowlease did not write is skipped: a claim of that number, or a list, reports it. */
async function readAll(session: ZooKeeperSession, { attempt, view }: Task, ids: readonly number[]): Promise<void> {
  const read = async (id: number): Promise<void> => {
    try {
      const node = await readNode(session, attempt.nodes, id);
      if (node === undefined) view.unused ??= id;
      view.add(node);
    } catch (error) {
      if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
    }
  };
  await Promise.all(ids.map(read));
}

/** The first number from `from` on that may be unused: skips the buckets in which every number has a record. */
async function skipFull({ attempt: { nodes, tried }, request }: Task, from: number): Promise<number> {
  const { last } = request.pool;
  // `findUnused` lists two buckets at once.
  if (bucketOf(last) - bucketOf(from) < 2) return from;
  for (let bucket = bucketOf(from); bucket <= bucketOf(last);) {
    const some = range(bucket, Math.min(bucket + manyBuckets - 1, bucketOf(last)));
    const counts = await tried.exchange((session) =>
      Promise.all(some.map((each) => session.count(nodes.states(each)))),
    );
    const at = counts.findIndex((count) => (count?.present ?? 0) < bucketSize);
    if (at >= 0) return Math.max(from, (bucket + at) * bucketSize);
    bucket += some.length;
  }
  return last + 1;
}

/** The result of a search for unused numbers. */
interface Unused {
  /** All numbers of the pool below this one have a record. */
  readonly from: number;
  /** The number to take. */
  readonly pick?: number | undefined;
}

/**
 * Finds a number without a record among the next few. `wide`: among those of a bucket and of the next one. A claim that was beaten picks
 * any of them: many processes that start at once would all reach for the lowest.
 */
async function findUnused(session: ZooKeeperSession, task: Task, from: number, wide: boolean): Promise<Unused> {
  const { attempt, request } = task;
  const { nodes, tried } = attempt;
  const { last } = request.pool;
  if (!wide) {
    const ids = range(from, Math.min(from + few - 1, last));
    const there = await Promise.all(ids.map((id) => session.count(nodes.state(id))));
    const lowest = ids[there.indexOf(undefined)];
    return { from: lowest ?? from + ids.length, pick: lowest };
  }
  const bucket = bucketOf(from);
  const end = Math.min((bucket + 2) * bucketSize - 1, last);
  const lists = await Promise.all([bucket, bucket + 1].map((each) => session.list(nodes.states(each))));
  const taken = new Set(lists.flatMap((names) => names ?? []).map(numberOf));
  const unused = range(from, end).filter((id) => !taken.has(id));
  const [lowest] = unused;
  return { from: lowest ?? end + 1, pick: tried.races > 0 ? shuffled(unused)[0] : lowest };
}

/** The idle numbers of a bucket that belong to the pool, used or unused. */
async function listIdle(session: ZooKeeperSession, { attempt, request }: Task, bucket: number): Promise<number[]> {
  const names = (await session.list(attempt.nodes.ephemerals(bucket))) ?? [];
  const live = new Set(names.map((name) => parseEphemeral(name)?.workerId));
  const { first, last } = boundsIn(bucket, request.pool);
  return range(first, last).filter((id) => !live.has(id));
}
