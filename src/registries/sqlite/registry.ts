import { setImmediate as turn } from "node:timers/promises";
import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { highestWorkerId, Layout } from "../../id/layout.ts";
import { type Decision, decideClaim } from "../../rule/pool.ts";
import {
  type ClaimRequest,
  defaultLimits,
  type Grant,
  type HistoryRow,
  type InitRequest,
  type NamespaceInfo,
  type Pin,
  type Refusal,
  type Registry,
  type WorkerRecord,
} from "../../rule/registry.ts";
import { checkNew } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import {
  checkClaim,
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
} from "../../rule/window.ts";
import { acceptClock, checkClock, guardClock, machineUptime, type Uptime } from "./clock-guard.ts";
import { Bands } from "./bands.ts";
import { type Moment, schemaVersion, type Sql } from "./database.ts";
import type { Row } from "./driver.ts";
import { type ClaimsAsked, type ClaimsRead, noteClaim, noteEnd, readClaims } from "./history.ts";
import { damageError, unfiledError } from "./errors.ts";
import { PresentDatabase } from "./present.ts";
import { Records } from "./records.ts";
import { readWorkers, type WorkersAsked, type WorkersRead } from "./workers.ts";

/** Where an embedded registry lives. */
export interface SqliteOptions {
  /**
   * The file: made when it is missing (mode 0600; where a group may write to its folder, 0660 less the umask), with the folders above it
   * (0700). Where every user may open it, a process warning says so. Everybody who shares it needs read and write access to the file and to its folder. Not on a network file system.
   */
  readonly path: string;
  readonly clock?: Clock | undefined;
  /** The time since boot. Default: this machine's, with the default clock; none with another one. */
  readonly uptime?: (() => Uptime | undefined) | undefined;
  /** How long an operation waits for a lock that others hold while none of them writes anything, ms. */
  readonly operationTimeout: number;
}

const promise =
  "Acknowledged writes survive kill -9 and power loss (synchronous=FULL), for the processes that share this file, as long as the file lasts.";

/** What a claim comes to that found nothing free among the records that are filed so far. */
const unfiled = Symbol("unfiled");

/** How many rows one transaction of `prune` deletes: others wait no longer than that takes. */
const pruneBatch = 500;

interface Namespace {
  readonly id: number;
  readonly info: NamespaceInfo;
}

interface NamespaceColumns {
  readonly namespace_id: number;
  readonly layout: string;
  readonly max_window: number;
  readonly max_clock_skew: number;
}

/**
 * A registry in one SQLite file, for any number of processes of one machine at once. Each operation is a transaction, and
 * waits in a queue for its turn to write. One that cannot get the lock while nobody has written for `operationTimeout` is REGISTRY_UNAVAILABLE, and is
 * then known not to have been applied.
 *
 * Holder and registry share one clock, so that comparing them would show nothing. In its place, a claim or renewal is refused
 * with CLOCK_SKEW while the wall clock has moved ahead of the time since boot by more than `maxClockSkew`; `acceptClock` takes it
 * as it is. Where there is no such time (not Linux, some containers) nothing is compared.
 *
 * @throws SnowleaseError CONFIG_INVALID for a path that cannot be used, SCHEMA_INCOMPATIBLE for a file that is another program's
 *   or a newer version's, DRIVER_MISSING; the file is then as it was.
 */
export async function sqliteRegistry({
  path,
  clock = systemClock,
  uptime,
  operationTimeout,
}: SqliteOptions): Promise<Registry> {
  const timeSinceBoot = uptime ?? (clock === systemClock ? machineUptime : () => undefined);
  const database = await PresentDatabase.open({ path, clock, operationTimeout });

  const registry: Registry = {
    kind: "sqlite",

    async init(request) {
      const info = await database.write(({ sql, now }) => {
        const { info } = find(sql, request.namespace) ?? create(sql, request, now);
        checkLayout(request.namespace, request.layout, info);
        checkLimits(request.namespace, request, info);
        return info;
      });
      await checkNew(registry, request);
      return info;
    },

    describe: (namespace) => database.read(({ sql }) => find(sql, namespace)?.info),

    async claim(request) {
      const begun = monotonic(clock);
      for (let passed = 0; ;) {
        const answer = await database.write((moment) => claimIn(moment, request, moment.waited + passed));
        if (answer !== unfiled) return answer;
        // So that others have their turn in between.
        passed = Math.floor(monotonic(clock) - begun);
        if (passed >= operationTimeout) throw unfiledError(path, request.pool, operationTimeout);
      }
    },

    renew: (request) =>
      database.write(({ sql, now, waited }) => {
        const asked = { ...request, clock: request.clock + waited };
        const space = find(sql, asked.namespace);
        if (space === undefined) return { outcome: "lost" };
        guardClock(sql, space, now, timeSinceBoot());
        checkWindow(asked.window, space.info);
        checkSkew(asked.clock, now, space.info);
        const records = new Records(sql, space.id);
        const after = renewed(records.byId(asked.workerId), asked, now);
        if (after === undefined) return { outcome: "lost" };
        records.put(after);
        return { outcome: "renewed", from: after.from, until: after.until, clock: now };
      }),

    release: (request) =>
      database.write(({ sql, now, waited }) => {
        const asked = { ...request, clock: request.clock + waited };
        const space = find(sql, asked.namespace);
        if (space === undefined) return { outcome: "lost" };
        const records = new Records(sql, space.id);
        const before = records.byId(asked.workerId);
        const after = released(before, asked, now);
        if (after === undefined) return { outcome: "lost" };
        if (after !== before) {
          records.put(after);
          noteEnd(sql, space.id, after, now, "released");
        }
        return { outcome: "released" };
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      // Nobody takes worker IDs here without keeping a window.
      if (state === "foreign") return [];
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      for (let next: number | undefined = after; next !== undefined && found.length < most;) {
        const page: WorkersAsked = { state, after: next, limit: most - found.length };
        const read: WorkersRead | undefined = await database.read(({ sql, now }) => {
          const space = find(sql, namespace);
          return space && readWorkers(sql, space.id, page, now);
        });
        found.push(...(read?.records ?? []));
        next = read?.next;
        // SQLite answers at once, so that nothing else has its turn before.
        await turn();
      }
      return found;
    },

    worker: (namespace, workerId) =>
      database.read(({ sql, now }) => {
        const space = find(sql, namespace);
        const found = space && new Records(sql, space.id).byId(workerId);
        return found && shownRecord(found, now);
      }),

    async history(namespace, workerId, { limit = 1000, ...range } = {}) {
      const most = Math.min(limit, 10_000);
      const found: HistoryRow[] = [];
      let before: number | undefined;
      do {
        const page: ClaimsAsked = { ...range, before, limit: most - found.length };
        const read: ClaimsRead | undefined = await database.read(({ sql }) => {
          const space = find(sql, namespace);
          return space && readClaims(sql, space.id, workerId, page);
        });
        found.push(...(read?.rows ?? []));
        before = read?.next;
        await turn();
      } while (before !== undefined && found.length < most);
      return found.toReversed();
    },

    forceRelease: (request) =>
      database.write(({ sql, now }) => {
        const { namespace, workerId, resetWindow = false } = request;
        const space = find(sql, namespace);
        const records = space && new Records(sql, space.id);
        const before = records?.byId(workerId);
        const refusal = forceRefusal(before, request, now);
        if (refusal !== undefined) return refusal;
        if (space === undefined || records === undefined || before === undefined) return { outcome: "absent" };
        const after = forced(before, now, resetWindow);
        records.put(after);
        noteEnd(sql, space.id, after, now, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    pinAll,
    unpin: async (namespace, workerId) => (await unpinAll(namespace, [workerId])).length > 0,
    unpinAll,

    async prune(namespace, before) {
      const batch = (): Promise<number> =>
        database.write(({ sql }) => {
          const space = find(sql, namespace);
          if (space === undefined) throw noNamespace(namespace);
          return sql.run("history.prune", { namespace_id: space.id, before, limit: pruneBatch });
        });
      let pruned = 0;
      for (let more = pruneBatch; more === pruneBatch; pruned += more) more = await batch();
      return pruned;
    },

    acceptClock: () => database.write(({ sql, now }) => ({ by: acceptClock(sql, now, timeSinceBoot()) })),

    ping: () =>
      database.write(({ sql, now }) => {
        sql.get("ping.look");
        sql.run("ping.touch", { done_at: now });
        sql.run("ping.untouch");
        checkClock(sql, now, timeSinceBoot());
        return { clock: now, promise, schema: schemaVersion };
      }),

    verify: () =>
      database.read(({ sql }) => {
        const said = String(Object.values(sql.get("ping.verify") ?? {})[0]);
        if (said !== "ok") throw damageError(said, path);
      }),

    close: () => database.close(),
  };
  return registry;

  /** One try to claim; `waited`: how long it took until then. */
  function claimIn(
    { sql, file, earliest, now }: Moment,
    request: ClaimRequest,
    waited: number,
  ): Grant | Refusal | typeof unfiled {
    // The claimer's clock went on while this waited for its turn; unmoved, it would look like one that was turned back.
    const asked = { ...request, clock: request.clock + waited };
    const { namespace, limits = {}, pool, workerId } = asked;
    const space = find(sql, namespace) ?? create(sql, { ...limits, ...asked }, now);
    const { id, info } = space;
    checkLimits(namespace, limits, info);
    guardClock(sql, space, now, timeSinceBoot());
    checkClaim(asked, now, info);
    const bands = new Bands(sql, id);
    // A claim of one number looks at no other.
    const isFiled = workerId === undefined ? bands.prepare(pool) : bands.hold(workerId, pool);
    const records = new Records(sql, id, bands, Math.min(asked.clock, now));
    const { answer, store, before } = notBefore(
      Math.max(firstTick(sql, info), earliest),
      decideClaim(records, asked, now, info),
    );
    if (answer.outcome === "exhausted" && !isFiled && asked.reuse !== "never") return unfiled;
    if (store !== undefined) {
      if (before === undefined) records.fillGap(store.workerId);
      records.put(store);
      noteClaim(sql, id, store, before);
    }
    return answer.outcome === "granted" ? { ...answer, store: file } : answer;
  }

  function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    return database.write(({ sql, now }) => {
      const space = find(sql, namespace);
      if (space === undefined) throw noNamespace(namespace);
      const records = new Records(sql, space.id);
      const highest = highestWorkerId(space.info.layout);
      for (const pin of pins) {
        const { workerId, reason, owner } = pin;
        checkPin(pin, highest, now, space.info);
        const before = records.byId(workerId);
        const after = pinnedRecord(before ?? unusedRecord(workerId), reason, owner);
        if (before === undefined) records.fillGap(workerId);
        records.put(after);
      }
    });
  }

  function unpinAll(namespace: string, workerIds: readonly number[]): Promise<readonly number[]> {
    return database.write(({ sql }) => {
      const space = find(sql, namespace);
      const records = space && new Records(sql, space.id);
      const unpinned: number[] = [];
      for (const workerId of workerIds) {
        const before = records?.byId(workerId);
        if (records === undefined || before?.pinned === undefined) continue;
        if (before.fence === 0) records.forget(workerId);
        else records.put(unpinnedRecord(before));
        unpinned.push(workerId);
      }
      return unpinned;
    });
  }
}

/** The same decision, with a window that begins at `earliest`, Unix ms, or later. */
function notBefore(earliest: number, decision: Decision): Decision {
  const { answer, store } = decision;
  if (answer.outcome !== "granted" || store === undefined || store.from >= earliest) return decision;
  const knownFrom = store.recents?.from ?? earliest;
  return { ...decision, answer: { ...answer, from: earliest }, store: { ...store, from: earliest, knownFrom } };
}

/**
 * A tick in which the registry was made is no holder's, Unix ms: those of another file that stood there may have used it. The first claim comes later
 * than a tick of 1 ms, and then windows may begin before that, for clocks that are set back.
 */
function firstTick(sql: Sql, { layout }: NamespaceInfo): number {
  return Layout.parse(layout).tick === 1 ? 0 : Number(sql.get("registry.made")?.["made_at"]);
}

function find(sql: Sql, namespace: string): Namespace | undefined {
  const row = sql.get("namespace.find", { name: namespace });
  return row && namespaceOf(row);
}

function create(sql: Sql, request: InitRequest, now: number): Namespace {
  const { namespace, layout } = request;
  const maxWindow = request.maxWindow ?? defaultLimits.maxWindow;
  const maxClockSkew = request.maxClockSkew ?? defaultLimits.maxClockSkew;
  const row = sql.get("namespace.add", {
    name: namespace,
    layout,
    max_window: maxWindow,
    max_clock_skew: maxClockSkew,
    created_at: now,
  });
  if (row === undefined) throw new Error(`the namespace ${namespace} could not be added`);
  const made = namespaceOf(row);
  sql.run("namespace.add-gap", { namespace_id: made.id });
  return made;
}

function namespaceOf(row: Row): Namespace {
  const { namespace_id, layout, max_window, max_clock_skew } = row as Row & NamespaceColumns;
  return { id: namespace_id, info: { layout, maxWindow: max_window, maxClockSkew: max_clock_skew } };
}
