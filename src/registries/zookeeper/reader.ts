import { posix } from "node:path";
import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import { isSnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { byAge } from "../../rule/pool.ts";
import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { StoreReader } from "../engine/optimistic.ts";
import type { OperationKind, Part, Standing } from "../engine/port.ts";
import { shuffled } from "../shuffled.ts";
import { together } from "../together.ts";
import { type Nodes, numberOf, type IndexPlace, placeOf, slotOf, slotsIn, slotSize, tokenIn } from "./nodes.ts";
import { otherSchema } from "./errors.ts";
import { jsonBytes, readNumber, readRecord, readRow, readStanding, schemaVersion, type StoredNode } from "./records.ts";
import type { Node, Write, ZooKeeperSession } from "./session.ts";

/**
 * If a pool has at most `fewSlots` slots, a claim reads it as a whole. In a larger pool, a search begins where the last one ended, and
 * looks at `sampled` random slots.
 */
const [fewSlots, sampled] = [2, 4];
/** How many slots are listed at once, and of how many slots the records are counted at once. */
const [listedTogether, countedTogether] = [16, 1000];
/** If a host has at most this many worker IDs, a claim reads all their records. */
const fewOwn = 16;
/** A search that passes this many used worker IDs moves the place where the next search begins. */
const longestPassed = 32;
/** How many places a search over many slots keeps: the oldest ones. */
const mostPlaces = 1000;
/** How many records, and rows of history, are read at once. */
const [recordPage, rowPage] = [200, 100];

/** What stands under the name of a namespace, as its node has it. */
export interface Beginning {
  readonly standing: Standing;
  /** The leader's clock, Unix ms. */
  readonly clock: number;
  readonly node: Node | undefined;
}

/** How an attempt reads. */
interface ReaderOptions {
  /** How often other writers were faster. */
  readonly races: number;
  /** A claim chooses one of this many equally good worker IDs at random. */
  readonly spread: number;
  readonly kind: OperationKind;
  /** Whether this client created, in this session, the ephemeral node whose path has this beginning. */
  readonly owns: (session: ZooKeeperSession, begin: string) => boolean;
  /** Writes the node of the clock. Returns the leader's time of that write, Unix ms. */
  readonly touch: (session: ZooKeeperSession) => Promise<number>;
}

/** A pool that the reader has read as a whole. */
interface WholePool {
  /** Its worker IDs that are not pinned. */
  readonly places: readonly IndexPlace[];
  /** Its worker IDs without a record, in ascending order. */
  readonly unused: readonly number[];
}

/** The reads of one attempt on the nodes of a namespace. */
export class ZooKeeperReader implements StoreReader {
  /** The records that were read, as their nodes have them. */
  readonly rows: Map<Stored, StoredNode> = new Map();
  /** The nodes of tokens that were read. */
  readonly tokens: Map<string, Node> = new Map();
  /** The nodes of the holder's sessions, for each record that was read together with them. */
  readonly sessions: Map<Stored, readonly string[]> = new Map();
  /** The node that each deletion of a record writes to. It is read before each record without a claim. */
  unpins: { readonly node: Node | undefined } | undefined;
  #unpinsRead: Promise<void> | undefined;
  /** Folders that do not exist. */
  readonly missing: Set<string> = new Set();
  /** The writes that move the place where the next search for an unused worker ID begins. The claim sends them along. */
  #next: readonly Write[] = [];
  readonly #nodes: Nodes;
  readonly #options: ReaderOptions;
  #open: ZooKeeperSession | undefined;
  #begun: Promise<Beginning> | undefined;
  readonly #records = new Map<number, Promise<Stored | undefined>>();
  #whole: Promise<WholePool> | undefined;
  /** What this reader knows about all worker IDs of the pool: that none is unused, and the oldest records. */
  #isFull = false;
  #oldest: readonly Stored[] | undefined;
  #own: Promise<readonly Stored[]> | undefined;

  constructor(nodes: Nodes, options: ReaderOptions) {
    this.#nodes = nodes;
    this.#options = options;
  }

  /** What stands under the name of the namespace, as this attempt read it first, in the session that all further reads use. */
  begin(session: ZooKeeperSession): Promise<Beginning> {
    this.#open = session;
    this.#begun ??= this.#begin();
    return this.#begun;
  }

  async #begin(): Promise<Beginning> {
    const { meta } = this.#nodes;
    const { kind, touch } = this.#options;
    const isWatched = kind === "claim" || kind === "write" || kind === "once";
    // No read after that write shows an older state.
    const [clock, node] = await together([
      touch(this.#session),
      this.#session.get(meta),
      isWatched ? this.#readUnpins() : undefined,
    ]);
    if (node === undefined) await this.#refuseOlder();
    return { standing: node === undefined ? {} : readStanding(node, meta), clock, node };
  }

  #readUnpins(): Promise<void> {
    this.#unpinsRead ??= this.#session.get(this.#nodes.unpins).then((node) => void (this.unpins = { node }));
    return this.#unpinsRead;
  }

  /** Version 1 of the schema noted an era in a node of its own. */
  async #refuseOlder(): Promise<void> {
    const path = `${this.#nodes.root}/era`;
    if ((await this.#session.get(path)) !== undefined) throw otherSchema(path, 1, schemaVersion);
  }

  get #session(): ZooKeeperSession {
    if (this.#open === undefined) throw new Error("a read before its session");
    return this.#open;
  }

  /** Whether the session of this record's holder has ended. */
  readonly isGone = (record: Stored): boolean => record.token !== undefined && this.sessions.get(record)?.length === 0;

  async byToken(token: string): Promise<Stored | undefined> {
    const path = this.#nodes.token(token);
    const node = await this.#session.get(path);
    if (node === undefined) return undefined;
    this.tokens.set(token, node);
    const record = await this.byId(readNumber(node, path));
    return record?.token === token ? record : undefined;
  }

  async byId(workerId: number): Promise<Stored | undefined> {
    if (!Number.isSafeInteger(workerId) || workerId < 0) return undefined;
    const { kind } = this.#options;
    const shows = kind === "claim" || kind === "read" || kind === "once";
    const reading = this.#records.get(workerId) ?? this.#record(workerId, shows);
    this.#records.set(workerId, reading);
    return reading;
  }

  /** If other claims compete for the lowest worker IDs, chooses one of the lowest few at random. */
  async firstUnused(pool: PoolBounds, everywhere?: true): Promise<number | undefined> {
    const slots = slotsIn(pool);
    if (everywhere === true) return this.#isFull ? undefined : this.#overlooked(slots, pool);
    if (slots.length <= fewSlots) {
      return this.#oneOf((await this.#readWhole(pool)).unused);
    }
    const next = await this.#session.get(this.#nodes.next(pool));
    const begin = Math.max(pool.first, next === undefined ? 0 : hintOf(next));
    let unused: readonly number[] = [];
    for (const some of widening(slotOf(begin), slotOf(pool.last))) {
      unused = await this.#unusedIn(some, { first: begin, last: pool.last });
      if (unused.length > 0) break;
    }
    const lowest = unused[0] ?? pool.last + 1;
    this.#isFull = lowest > pool.last && begin === pool.first;
    const isFar = lowest - begin >= longestPassed || (lowest > pool.last && lowest > begin);
    if (isFar) this.#beginAt(pool, lowest, next === undefined);
    return this.#oneOf(unused);
  }

  /** What a claim needs to know about a pool of few slots. */
  #readWhole(pool: PoolBounds): Promise<WholePool> {
    this.#whole ??= this.#listWhole(pool);
    return this.#whole;
  }

  async #listWhole(pool: PoolBounds): Promise<WholePool> {
    const { idle, states } = this.#nodes;
    const slots = slotsIn(pool);
    const [lists, counts] = await together([
      together(slots.map((slot) => this.#list(idle(slot)))),
      together(slots.map((slot) => this.#count(states(slot)))),
    ]);
    const places = lists.flat().flatMap((name) => placeOf(name) ?? []);
    const used = new Set(places.map(({ workerId }) => workerId));
    // A pinned record is counted, but not listed. A record that an operator deleted by hand is listed, but not counted. One of each hides
    // the other, so after a race the claim lists the records themselves.
    const isAll = this.#options.races === 0 && slots.every((_, i) => lists[i]?.length === counts[i]);
    const unused = isAll ? numbersIn(pool).filter((id) => !used.has(id)) : await this.#unusedIn(slots, pool);
    return { places: places.filter(({ workerId }) => isIn(pool, workerId)), unused };
  }

  /**
   * An unused worker ID anywhere in the pool. The usual search overlooks a worker ID if an operator has since deleted its record or removed
   * its pin.
   */
  async #overlooked(slots: readonly number[], pool: PoolBounds): Promise<number | undefined> {
    const { states, next: nextOf } = this.#nodes;
    if (slots.length <= fewSlots) return this.#oneOf(await this.#unusedIn(slots, pool));
    const next = await this.#session.get(nextOf(pool));
    for (let i = 0; i < slots.length; i += countedTogether) {
      const some = slots.slice(i, i + countedTogether);
      const counts = await together(some.map((slot) => this.#count(states(slot))));
      const open = some.filter((slot, at) => numbersOf(slot, pool).length < slotSize || (counts[at] ?? 0) < slotSize);
      for (let at = 0; at < open.length; at += listedTogether) {
        const unused = await this.#unusedIn(open.slice(at, at + listedTogether), pool);
        const [lowest] = unused;
        if (lowest === undefined) continue;
        this.#beginAt(pool, lowest, next === undefined);
        return this.#oneOf(unused);
      }
    }
    if (next !== undefined && hintOf(next) > pool.last) return undefined;
    // A claim that finds nothing commits nothing, so this sends the write itself.
    this.#beginAt(pool, pool.last + 1, next === undefined);
    const { node } = await this.begin(this.#session);
    const expected: Write = { op: "check", path: this.#nodes.meta, version: node?.version };
    await Promise.allSettled(this.storeNext(this.#session, [expected]));
    return undefined;
  }

  /** The worker IDs of these slots without a record, in ascending order. */
  async #unusedIn(slots: readonly number[], pool: PoolBounds): Promise<readonly number[]> {
    const lists = await together(slots.map((slot) => this.#list(this.#nodes.states(slot))));
    return slots.flatMap((slot, i) => {
      const used = new Set(lists[i]?.map(numberOf));
      return numbersOf(slot, pool).filter((id) => !used.has(id));
    });
  }

  /** One of the first few, at random. */
  #oneOf(numbers: readonly number[]): number | undefined {
    const some = numbers.slice(0, this.#options.spread);
    return some[Math.floor(Math.random() * some.length)];
  }

  #beginAt(pool: PoolBounds, number: number, isNew: boolean): void {
    const path = this.#nodes.next(pool);
    const data = jsonBytes(number);
    const folder: Write = { op: "create", path: posix.dirname(path) };
    this.#next = isNew ? [folder, { op: "create", path, data }] : [{ op: "set", path, data, version: -1 }];
  }

  /** Stores where the next search begins, if the namespace still stands. */
  storeNext(session: ZooKeeperSession, expected: readonly Write[]): readonly Promise<unknown>[] {
    return this.#next.map((write) => session.commit([...expected, write]));
  }

  /** In a large pool, the oldest of some random slots. */
  async oldest(pool: PoolBounds, limit: number, everywhere?: true): Promise<readonly Stored[]> {
    if (everywhere === true && this.#oldest !== undefined) return this.#oldest;
    const all = slotsIn(pool);
    const slots = everywhere === true || all.length <= sampled ? all : sample(all);
    const isOver = await this.#passed();
    let oldest: readonly IndexPlace[] = [];
    for (let i = 0; i < slots.length; i += listedTogether) {
      const places = (await this.#placesOf(slots.slice(i, i + listedTogether), pool)).toSorted(byAge);
      const over = await this.#firstOver(places.filter(isOver));
      if (over !== undefined) return [over];
      oldest = [...oldest, ...places].toSorted(byAge).slice(0, mostPlaces);
    }
    const { spread } = this.#options;
    if (everywhere !== true && spread > 1) return this.#recordsAt(shuffled(oldest.slice(0, spread)), limit);
    const records = await this.#recordsAt(oldest, limit);
    if (slots.length === all.length) this.#oldest = records;
    return records;
  }

  async #placesOf(slots: readonly number[], pool: PoolBounds): Promise<readonly IndexPlace[]> {
    if (slotsIn(pool).length <= fewSlots) return (await this.#readWhole(pool)).places;
    const found = await together(slots.map((slot) => this.#placesIn(this.#nodes.idle(slot), pool)));
    return found.flat();
  }

  /** A record whose window has passed, among these places. If other claims compete for them, a random one. */
  async #firstOver(places: readonly IndexPlace[]): Promise<Stored | undefined> {
    const { spread } = this.#options;
    const first = [...shuffled(places.slice(0, spread)), ...places.slice(spread)];
    const isOver = await this.#passed();
    return (await this.#recordsAt(first, 1)).find(isOver);
  }

  async oldestOfHost(pool: PoolBounds, host: string, limit: number): Promise<readonly Stored[]> {
    const own = await this.#ofHost(pool, host);
    const isOver = await this.#passed();
    const first = this.#options.spread > 1 ? shuffled(own.filter(isOver)) : [];
    return [...first, ...own.filter((record) => !first.includes(record))].slice(0, limit);
  }

  async newestOfHost(pool: PoolBounds, host: string): Promise<Stored | undefined> {
    return (await this.#ofHost(pool, host)).at(-1);
  }

  /** The records of a host, the oldest first: all of them, or some. */
  #ofHost(pool: PoolBounds, host: string): Promise<readonly Stored[]> {
    this.#own ??= this.#readOwn(pool, host);
    return this.#own;
  }

  async #readOwn(pool: PoolBounds, host: string): Promise<readonly Stored[]> {
    const records = await this.#readable(await this.#idsOfHost(pool, host));
    return records.filter(({ pinned, holder }) => pinned === undefined && holder?.host === host).toSorted(byAge);
  }

  /** All worker IDs of a host, or the oldest and the newest in some slots. */
  async #idsOfHost(pool: PoolBounds, host: string): Promise<readonly number[]> {
    const names = await this.#list(this.#nodes.host(host));
    const ids = names.flatMap((name) => numberOf(name) ?? []).filter((id) => isIn(pool, id));
    if (ids.length <= fewOwn) return ids;
    const slots = shuffled([...new Set(ids.map(slotOf))]).slice(0, sampled);
    const own = new Set(ids);
    const places = (await this.#placesOf(slots, pool)).filter(({ workerId }) => own.has(workerId));
    const byUntil = places.toSorted(byAge).map(({ workerId }) => workerId);
    return [...byUntil.slice(0, fewOwn), ...byUntil.slice(fewOwn).slice(-1)];
  }

  async pinnedFor(pool: PoolBounds, ip: string, limit: number): Promise<readonly Stored[]> {
    const places = await this.#placesIn(this.#nodes.owner(ip), pool);
    return this.#recordsAt(places.toSorted(byAge), limit, ({ owner }) => owner === ip);
  }

  async page(after: number, limit: number): Promise<Part<Stored>> {
    const { standing } = await this.begin(this.#session);
    if (standing.made === undefined) return { rows: [], next: undefined };
    const last = slotOf(Layout.parse(standing.made.info.layout).pool.last);
    for (const slots of widening(slotOf(after + 1), last)) {
      const lists = await together(slots.map((slot) => this.#list(this.#nodes.states(slot))));
      const ids = lists.flatMap((names, i) => {
        const own = names.flatMap((name) => numberOf(name) ?? []);
        return own.filter((id) => slotOf(id) === slots[i] && id > after).toSorted((a, b) => a - b);
      });
      const some = ids.slice(0, Math.min(limit, recordPage));
      const rows = (await together(some.map((id) => this.byId(id)))).filter((record) => record !== undefined);
      if (some.length > 0) return { rows, next: some.at(-1) };
    }
    return { rows: [], next: undefined };
  }

  /**
   * Fences mostly rise by one, so this reads rows by their names. A list of all rows may be long. This lists them only if it finds no row
   * by name: they were pruned, an operator deleted some, or the fence jumped.
   */
  async ended(workerId: number, before: number, limit: number): Promise<Part<HistoryRow>> {
    const { fence: last = 0, token } = (await this.byId(workerId)) ?? {};
    // A claim that goes on has no row, or got its row after that read.
    const newest = token === undefined ? last : last - 1;
    for (let fence = Math.min(before - 1, newest); fence > 0;) {
      const most = Math.min(limit, rowPage, fence);
      const paths = Array.from({ length: most }, (_, i) => this.#nodes.row(workerId, fence - i));
      const found = await together(paths.map((path) => this.#session.get(path)));
      const rows = found.flatMap((node, i) => (node === undefined ? [] : [readRow(node, paths[i] ?? "")]));
      const next = fence - most + 1;
      if (rows.length > 0) return { rows, next: next > 1 ? next : undefined };
      fence = await this.highestRow(workerId, next);
    }
    return { rows: [], next: undefined };
  }

  /** The highest fence of a row below this one; 0 if there is none. */
  async highestRow(workerId: number, before: number = Infinity): Promise<number> {
    const fences = (await this.#list(this.#nodes.rows(workerId))).map((name) => numberOf(name) ?? 0);
    return Math.max(0, ...fences.filter((fence) => fence < before));
  }

  async #list(path: string): Promise<readonly string[]> {
    const names = await this.#session.list(path);
    if (names === undefined) this.missing.add(path);
    return names ?? [];
  }

  async #count(path: string): Promise<number> {
    const count = await this.#session.count(path);
    if (count === undefined) this.missing.add(path);
    return count?.present ?? 0;
  }

  /** The places of a pool in a part of an index. */
  async #placesIn(path: string, pool: PoolBounds): Promise<readonly IndexPlace[]> {
    const places = (await this.#list(path)).flatMap((name) => placeOf(name) ?? []);
    return places.filter(({ workerId }) => isIn(pool, workerId));
  }

  /** Reports whether a window has passed by the clock of every claimer that the registry admits. */
  async #passed(): Promise<(place: IndexPlace) => boolean> {
    const { standing, clock } = await this.begin(this.#session);
    const skew = standing.made?.info.maxClockSkew ?? Infinity;
    return ({ until }) => until <= clock - skew;
  }

  /**
   * The records at the first of these places. A place that does not match its record does not hide other records. Such places stay if an
   * operator deletes records by hand.
   */
  async #recordsAt(
    places: readonly IndexPlace[],
    limit: number,
    belongs: (record: Stored) => boolean = ({ pinned }) => pinned === undefined,
  ): Promise<readonly Stored[]> {
    const [fits, others]: [Stored[], Stored[]] = [[], []];
    for (let at = 0, width = limit; at < places.length && fits.length < limit; at += width, width *= 2) {
      const some = places.slice(at, at + width);
      const untils = new Map(some.map(({ workerId, until }) => [workerId, until]));
      const records = (await this.#readable([...untils.keys()])).filter(belongs);
      for (const record of records) (untils.get(record.workerId) === record.until ? fits : others).push(record);
    }
    return [...fits, ...others].slice(0, limit);
  }

  /** These records, except those that Snowlease did not write. A claim of such a worker ID, or a list, reports them. */
  async #readable(ids: readonly number[]): Promise<readonly Stored[]> {
    const read = async (id: number): Promise<Stored | undefined> => {
      try {
        return await this.#record(id, false);
      } catch (error) {
        if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
        return undefined;
      }
    };
    return (await together(ids.map(read))).filter((record) => record !== undefined);
  }

  /** `shows`: whether to list the sessions of its holder. */
  async #record(workerId: number, shows: boolean): Promise<Stored | undefined> {
    const path = this.#nodes.state(workerId);
    // Lists the sessions after the record. A session that began between the two reads must not look as if it had ended.
    const [node, listed] = await together([this.#session.get(path), shows ? this.#session.list(path) : undefined]);
    if (node === undefined) return undefined;
    const row = readRecord(node, path, workerId);
    const { record } = row;
    if (record.fence === 0 && this.#options.kind !== "read" && this.#unpinsRead === undefined) {
      await this.#readUnpins();
      return this.#record(workerId, shows);
    }
    this.rows.set(record, row);
    // A client knows its own node without a list.
    const isOwn =
      record.token !== undefined && this.#options.owns(this.#session, this.#nodes.live(workerId, record.token));
    const isShared = this.#options.kind === "release" && node.children > (isOwn ? 1 : 0);
    const names = listed ?? (isShared ? await this.#session.list(path) : undefined);
    if (names !== undefined) {
      const own = names.filter((name) => tokenIn(name) === record.token);
      this.sessions.set(
        record,
        own.map((name) => `${path}/${name}`),
      );
    }
    return record;
  }
}

/** The worker IDs of a slot that belong to a pool. */
function numbersOf(slot: number, { first, last }: PoolBounds): readonly number[] {
  return numbersIn({ first: Math.max(first, slot * slotSize), last: Math.min(last, (slot + 1) * slotSize - 1) });
}

function numbersIn({ first, last }: PoolBounds): readonly number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}

/** The slots from one to another: one at first, then more and more at once. */
function* widening(first: number, last: number): Generator<readonly number[], void, undefined> {
  for (
    let [slot, width] = [first, 1];
    slot <= last;
    [slot, width] = [slot + width, Math.min(8 * width, listedTogether)]
  ) {
    yield Array.from({ length: Math.min(width, last - slot + 1) }, (_, i) => slot + i);
  }
}

/** Where a search begins. This is only a hint: a value that is not an integer counts as 0. */
function hintOf(node: Node): number {
  const hint = Number(new TextDecoder().decode(node.data));
  return Number.isSafeInteger(hint) ? hint : 0;
}

/** Some random slots. */
function sample(slots: readonly number[]): readonly number[] {
  const few = Array.from({ length: sampled }, () => slots[Math.floor(Math.random() * slots.length)] ?? 0);
  return [...new Set(few)];
}
