import { highestWorkerId } from "../../id/layout.ts";
import { checkpointIn, renewalIn, usageIn } from "../../rule/era.ts";
import type { NamespaceInfo, Pin, Registry, WorkerRecord } from "../../rule/registry.ts";
import { checkNew, notNew } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unusedRecord } from "../../rule/pin.ts";
import {
  checkClaim,
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  forced,
  forceRefusal,
  released,
  renewed,
  shownMarked,
  shownRecord,
  type Stored,
} from "../../rule/window.ts";
import { timeText } from "../../id/errors.ts";
import { isMissingTables, knowingAbsence } from "./absent-namespace.ts";
import { type AssignRow, assignRow, foreignHolder, isForeign, isOurs } from "./assign.ts";
import { claimOnce } from "./claim.ts";
import { listClaims, noteEnd } from "./history.ts";
import { makeTables } from "./init.ts";
import { dialectOf } from "./dialects.ts";
import { type Attempt, openOperations, type OperationsOptions, type SqlAddress } from "./execute.ts";
import { type Kept, keptLabel, keptOf, numberOf } from "./records.ts";
import { rehearse } from "./rehearsal.ts";
import { checkQuarantine, guard, readSpace, shownInfo, type Space } from "./namespace-state.ts";
import { namesOf } from "./statements.ts";
import { together, type Unit } from "./transaction.ts";
import { noteBeside, put, putPinned, unpin } from "./write.ts";

/** Rows that one statement lists or deletes. */
const page = 500;

/** How long after a lost race others are taken to claim, too, ms. */
const rushLasts = 1000;

/** For what finds out by itself whether it was done before. */
const again = { repeatable: true };
const once = { repeatable: false };

/**
 * A registry in tables of an SQL database, one of them as westid made it known. An operation reads what it needs without a lock,
 * decides, and writes in one short transaction that takes effect only if what was read is still so; otherwise it decides again.
 * The clock is the database's. A server that may have forgotten what was acknowledged is QUARANTINE until every window has passed
 * that may have been granted: `space.ts`.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING. It connects when it is first asked.
 */
export async function sqlRegistry(address: SqlAddress, options: OperationsOptions): Promise<Registry> {
  const dialect = await dialectOf(address.kind);
  const operations = await openOperations(dialect, address, options);
  const { migrations, settings } = operations;

  /** The races that the last claim lost which lost any: while many claim at once, each begins by lot. */
  let rush = { races: 0, at: 0 };
  /** A namespace that is there: in its tables `ping` tries whether something can be written. */
  let known: string | undefined;

  async function read({ unit, place }: Attempt): Promise<Space> {
    const space = await readSpace(unit, place, migrations.length);
    known = place.namespace;
    return space;
  }

  /** What is fixed for a namespace, checked against the server that this is. */
  async function spaceOf(attempt: Attempt): Promise<Space> {
    return guard(attempt.unit, dialect, await read(attempt));
  }

  async function keptAt(unit: Unit, workerId: number): Promise<Kept | undefined> {
    const row = await unit.get("record.get", { worker_id: workerId });
    return row && keptOf(row);
  }

  const registry: Registry = {
    kind: dialect.kind,

    async init(request) {
      const { namespace } = request;
      const space = await operations.run(namespace, again, async (attempt) => {
        await makeTables(attempt.unit, attempt.place, migrations, namesOf(namespace), request);
        const space = await spaceOf(attempt);
        checkLayout(namespace, request.layout, space.info);
        checkLimits(namespace, request, space.info);
        return space;
      });
      if (request.new === true && space.quarantineEnd > 0) {
        throw notNew(namespace, `a quarantine of it is recorded, until ${timeText(space.quarantineEnd)}`);
      }
      await checkNew(registry, request);
      return shownInfo(space);
    },

    async describe(namespace): Promise<NamespaceInfo | undefined> {
      try {
        return await operations.run(namespace, again, async (attempt) => shownInfo(await read(attempt)));
      } catch (error) {
        if (isMissingTables(error)) return undefined;
        throw error;
      }
    },

    claim: (request) =>
      operations.run(request.namespace, again, async (attempt) => {
        const { unit } = attempt;
        const [space, repeated] = await together([
          spaceOf(attempt),
          unit.get("claim.by-token", { token: request.token }),
        ]);
        checkQuarantine(space, attempt.place);
        const { clock, namespace, limits = {} } = request;
        // The claimer's clock went on while this waited for its turn; unmoved, it would look like one that was turned back.
        const asked = { ...request, clock: clock + attempt.waited, holder: keptLabel(request.holder) };
        checkLimits(namespace, limits, space.info);
        checkClaim(asked, space.clock, space.info);
        if (settings.beside === "westid") await noteBeside(unit, space);
        if (attempt.races > 0) rush = { races: attempt.races, at: space.clock };
        const races = space.clock - rush.at < rushLasts ? rush.races : 0;
        return claimOnce(unit, space, asked, repeated && keptOf(repeated), races);
      }),

    renew: (request) =>
      operations.run(request.namespace, again, async (attempt) => {
        const { unit } = attempt;
        const [space, kept] = await together([spaceOf(attempt), keptAt(unit, request.workerId)]);
        checkQuarantine(space, attempt.place);
        const asked = { ...request, clock: request.clock + attempt.waited };
        checkWindow(asked.window, space.info);
        checkSkew(asked.clock, space.clock, space.info);
        // Somebody who keeps no window has the number now: what would be made from here on would be made twice.
        if (kept === undefined || !isOurs(kept.row, kept.record)) return { outcome: "lost" };
        const checkpoint = checkpointIn(space, asked.checkpoint, kept.record);
        const after = renewed(kept.record, { ...asked, checkpoint }, space.clock);
        if (after === undefined) return { outcome: "lost" };
        const present = renewalIn(space, after, kept.era);
        await unit.write(() => [put(unit, space, kept, present)]);
        return { outcome: "renewed", from: present.from, until: present.until, clock: space.clock };
      }),

    release: (request) =>
      operations.run(request.namespace, again, async (attempt) => {
        const { unit } = attempt;
        const [space, kept] = await together([spaceOf(attempt), keptAt(unit, request.workerId)]);
        if (kept === undefined) return { outcome: "lost" };
        const { record } = kept;
        const used = usageIn(space, request.used, record, kept.era);
        const asked = { ...request, clock: request.clock + attempt.waited, used };
        const after = released(record, asked, space.clock);
        if (after === undefined) return { outcome: "lost" };
        if (after !== record) await end(unit, space, kept, after, "released");
        return { outcome: "released" };
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      for (let next: number | undefined = after; next !== undefined && found.length < most;) {
        const from: number = next;
        const { records, last } = await operations.run(namespace, again, (attempt) => listPage(attempt, from));
        found.push(...records.filter((record) => state === undefined || record.state === state));
        next = last;
      }
      return found.slice(0, most);
    },

    worker: (namespace, workerId) =>
      operations.run(namespace, again, async ({ unit, place }) => {
        const { clock } = await readSpace(unit, place, migrations.length);
        const kept = await keptAt(unit, workerId);
        if (kept !== undefined) return shownKept(kept, clock);
        const row = await unit.get("assign.get", { worker_id: workerId });
        return row && shownForeign(workerId, assignRow(row, ""), clock);
      }),

    history: (namespace, workerId, range = {}) =>
      operations.run(namespace, again, async ({ unit }) => listClaims(unit, workerId, range)),

    forceRelease: (request) =>
      operations.run(request.namespace, once, async (attempt) => {
        const { workerId, resetWindow = false } = request;
        const { unit } = attempt;
        const [space, kept] = await together([spaceOf(attempt), keptAt(unit, workerId)]);
        const refusal = forceRefusal(kept?.record, request, space.clock);
        if (refusal !== undefined || kept === undefined) return refusal ?? { outcome: "absent" };
        const after = forced(kept.record, space.clock, resetWindow);
        await end(unit, space, kept, after, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    pinAll,
    unpin: async (namespace, workerId) => (await unpinAll(namespace, [workerId])).length > 0,
    unpinAll,

    async prune(namespace, before) {
      let pruned = 0;
      for (let more = page; more === page; pruned += more) {
        [more] = await operations.run(namespace, once, ({ unit }) => {
          return unit.write(() => [unit.change("history.prune", { before, limit: page })]);
        });
      }
      return pruned;
    },

    rehearse: (namespace) =>
      operations.run(namespace, again, async (attempt) => rehearse(attempt.unit, await read(attempt))),

    ping: () =>
      operations.run(known ?? "default", again, async ({ unit }) => {
        const told = await unit.get("session.promise");
        const [touched] = await unit.write(() => [
          unit.get("session.touch"),
          known !== undefined && unit.swap("meta.touch", {}),
        ]);
        const clock = numberOf(touched ?? {}, "clock");
        return { clock, promise: dialect.promiseOf(told ?? {}), schema: migrations.length };
      }),

    close: async () => operations.close(),
  };
  return knowingAbsence(registry);

  function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    return operations.run(namespace, again, async (attempt) => {
      const { unit } = attempt;
      const space = await spaceOf(attempt);
      const highest = highestWorkerId(space.info.layout);
      for (const pin of pins) checkPin(pin, highest, space.clock, space.info);
      const kept = await together(pins.map(({ workerId }) => keptAt(unit, workerId)));
      const pinned = pins.map(({ workerId, reason, owner }, i) => {
        const before = kept[i];
        return { kept: before, record: pinnedRecord(before?.record ?? unusedRecord(workerId), reason, owner) };
      });
      await unit.write(() => [putPinned(unit, space, pinned)]);
    });
  }

  function unpinAll(namespace: string, workerIds: readonly number[]): Promise<readonly number[]> {
    return operations.run(namespace, once, async (attempt) => {
      const { unit } = attempt;
      const space = await spaceOf(attempt);
      const found = await together(workerIds.map((workerId) => keptAt(unit, workerId)));
      const pinned = found.filter((kept) => kept?.record.pinned !== undefined) as readonly Kept[];
      if (pinned.length > 0) await unit.write(() => [unpin(unit, space, pinned)]);
      return pinned.map(({ record }) => record.workerId);
    });
  }

  /** Ends a claim. For Java processes it goes on until its window has passed, and for good where they have ever been seen. */
  async function end(
    unit: Unit,
    space: Space,
    kept: Kept,
    after: Stored,
    how: "released" | "forced" | "reset",
  ): Promise<void> {
    const { row } = kept;
    const { workerId, until } = after;
    const stays = how === "forced" || until > space.clock || space.beside || !isOurs(row, after);
    await unit.write(() => [
      put(unit, space, kept, after),
      noteEnd(unit, after, space.clock, how),
      stays || unit.change("assign.remove", { worker_id: workerId, ...row }),
    ]);
  }

  async function listPage(
    { unit, place }: Attempt,
    after: number,
  ): Promise<{ records: readonly WorkerRecord[]; last: number | undefined }> {
    const { clock } = await readSpace(unit, place, migrations.length);
    const ours = (await unit.all("workers.page", { after, limit: page })).map(keptOf);
    const full = ours.length === page ? ours.at(-1)?.record.workerId : undefined;
    const span = { after, last: full ?? Number.MAX_SAFE_INTEGER, limit: page };
    const theirs = await unit.all("workers.foreign", span);
    const records = [
      ...ours.map((kept) => shownKept(kept, clock)),
      ...theirs.map((row) => shownForeign(numberOf(row, "worker_id"), assignRow(row, ""), clock)),
    ].toSorted((a, b) => a.workerId - b.workerId);
    const cut = theirs.length === page ? records.slice(0, page) : records;
    return { records: cut, last: theirs.length === page ? cut.at(-1)?.workerId : full };
  }
}

function shownKept({ record, row }: Kept, clock: number): WorkerRecord {
  if (isForeign(row, record)) return shownForeign(record.workerId, row, clock, record);
  const shown = shownRecord(record, clock);
  return row === undefined ? shown : shownMarked(shown);
}

function shownForeign(
  workerId: number,
  row: AssignRow | undefined,
  clock: number,
  record: Stored = unusedRecord(workerId),
): WorkerRecord {
  const holder = row && foreignHolder(row);
  return { ...shownRecord(record, clock), state: "foreign", holder };
}
