import { type Clock, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError } from "../../id/errors.ts";
import type { ForceReleased, Grant, HistoryRow, Registry, WorkerRecord } from "../../rule/registry.ts";
import {
  type ClaimAnswer,
  claimAnswer,
  forceReleaseAnswer,
  historyAnswer,
  blocksAnswer,
  namespaceAnswer,
  pruneAnswer,
  readyAnswer,
  renewAnswer,
  unpinsAnswer,
  workerAnswer,
  workersAnswer,
} from "../../api/answers.ts";
import { checkpointJson, historyOf, recentsJson, recentsOf, workerOf } from "../../api/codec.ts";
import { forceRefused, refusal } from "../../api/problem.ts";
import { StoreFile } from "../../store-file.ts";
import type {
  ClaimBody,
  ForceReleaseBody,
  InitBody,
  BlocksBody,
  PinBody,
  PinsBody,
  ReleaseBody,
  RenewBody,
  UnpinsBody,
} from "../../api/requests.ts";
import { tlsOf } from "./parameters.ts";
import { type ApiCall, httpTransport } from "./transport.ts";

/** How to reach a daemon. */
export interface DaemonRegistryOptions {
  /** Deadline of one operation, ms. Default 5 s. */
  readonly operationTimeout?: number | undefined;
  readonly clock?: Clock | undefined;
  /** For addresses without a login. */
  readonly token?: string | undefined;
  /** `tlsCa`, `tlsCert`, `tlsKey`: PEM files for https. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

const defaultTimeout = 5000;
const defaultLimit = 1000;
/** At most so many preferred worker IDs are looked at by any registry. */
const mostPreferred = 8;

/**
 * The registry of a daemon, over HTTP: `http://HOST:PORT`, `https://…` or `unix:PATH`; of several addresses the next one is asked
 * when one fails or says to wait. They must be daemons of one registry: its tokens and fences are what every answer rests on.
 *
 * Claims (idempotent by token), renewals and releases are repeated within `operationTimeout` when their answer was lost; forced
 * releases, unpinning and pruning only when they were never sent.
 * @throws SnowleaseError CONFIG_INVALID for an address that is none.
 */
export function daemonRegistry(addresses: readonly string[], options: DaemonRegistryOptions = {}): Registry {
  const { operationTimeout = defaultTimeout, clock = systemClock, token, settings = {} } = options;
  const transport = httpTransport(addresses, { operationTimeout, clock, token, tls: tlsOf(addresses, settings) });

  const once = <Answer>(call: Omit<ApiCall<Answer>, "repeatable">): Promise<Answer> =>
    transport.call({ ...call, repeatable: false });
  const call = <Answer>(call: Omit<ApiCall<Answer>, "repeatable">): Promise<Answer> =>
    transport.call({ ...call, repeatable: true });

  return {
    kind: "daemon",

    init({ namespace, layout, ...limits }) {
      const body: InitBody = { layout, ...limits };
      return call({ method: "PUT", path: pathOf(namespace), body, answer: namespaceAnswer });
    },

    describe(namespace) {
      return absentWhereMissing(call({ method: "GET", path: pathOf(namespace), answer: namespaceAnswer }));
    },

    async claim(request) {
      const {
        namespace,
        token,
        workerId,
        pool,
        layout,
        reuse,
        continues,
        lead: leadMs,
        limits,
        clock: now,
        window: windowMs,
      } = request;
      const { host, ip, pid, instance } = request.holder;
      const preferred = request.preferred?.slice(0, mostPreferred);
      // Field by field: the daemon refuses what it does not know.
      const what = { token, workerId, pool, preferred, now, windowMs, layout, reuse, continues, leadMs, limits };
      const body: ClaimBody = { ...what, host, ip, pid, instance };
      try {
        return grantOf(await call({ method: "POST", path: pathOf(namespace, "leases"), body, answer: claimAnswer }));
      } catch (error) {
        const refused = isSnowleaseError(error) ? refusal.safeParse(error.details["refusal"]) : undefined;
        if (refused?.success === true) return refused.data;
        throw error;
      }
    },

    async renew({ namespace, workerId, fence, token, clock: now, window: windowMs, checkpoint }) {
      const body: RenewBody = { token, fence, now, windowMs, ...checkpointJson(checkpoint) };
      try {
        const path = pathOf(namespace, "leases", workerId);
        const { from, until, clock } = await call({ method: "PATCH", path, body, answer: renewAnswer });
        return { outcome: "renewed", from, until, clock };
      } catch (error) {
        if (isSnowleaseError(error, "LEASE_LOST")) return { outcome: "lost" };
        throw error;
      }
    },

    async release({ namespace, workerId, fence, token, clock: now, used }) {
      const usage = used && { until: used.until, ...checkpointJson(used.checkpoint), ...recentsJson(used.recents) };
      const body: ReleaseBody = { token, fence, now, ...usage };
      try {
        await call({ method: "DELETE", path: pathOf(namespace, "leases", workerId), body });
        return { outcome: "released" };
      } catch (error) {
        if (isSnowleaseError(error, "LEASE_LOST")) return { outcome: "lost" };
        throw error;
      }
    },

    async takeBlocks({ namespace, workerId, fence, token, first, spans, blocks, held }) {
      const body: BlocksBody = { token, fence, first, spans, blocks, held };
      try {
        const path = pathOf(namespace, "leases", workerId, "blocks");
        return { outcome: "taken", ...(await call({ method: "POST", path, body, answer: blocksAnswer })) };
      } catch (error) {
        if (isSnowleaseError(error, "LEASE_LOST")) return { outcome: "lost" };
        throw error;
      }
    },

    async workers(namespace, { state, after, limit = defaultLimit } = {}) {
      const found: WorkerRecord[] = [];
      for (let next = after; found.length < limit;) {
        const path = pathOf(namespace, "workers") + query({ state, after: next, limit: limit - found.length });
        const page = await absentWhereMissing(call({ method: "GET", path, answer: workersAnswer }));
        found.push(...(page?.workers ?? []).map(workerOf));
        if (page?.next === undefined || page.workers.length === 0) break;
        next = page.next;
      }
      return found;
    },

    async worker(namespace, workerId) {
      const path = pathOf(namespace, "workers", workerId);
      const found = await absentWhereMissing(call({ method: "GET", path, answer: workerAnswer }));
      return found && workerOf(found);
    },

    async history(namespace, workerId, { from, until, limit = defaultLimit } = {}) {
      const found: HistoryRow[] = [];
      for (let before: number | undefined; found.length < limit;) {
        const page = query({ from, until, before, limit: limit - found.length });
        const path = pathOf(namespace, "workers", workerId, "history") + page;
        const older = await absentWhereMissing(call({ method: "GET", path, answer: historyAnswer }));
        found.unshift(...(older?.rows ?? []).map(historyOf));
        if (older?.next === undefined || older.rows.length === 0) break;
        before = older.next;
      }
      return found;
    },

    async forceRelease({ namespace, workerId, force, fence, resetWindow }): Promise<ForceReleased> {
      const path = pathOf(namespace, "workers", workerId, "release");
      // Whoever calls the port has been asked already.
      const body: ForceReleaseBody = { force, fence, ...(resetWindow === true && { resetWindow, iKnow: true }) };
      try {
        const { until } = await once({ method: "POST", path, body, answer: forceReleaseAnswer });
        return { outcome: "released", until };
      } catch (error) {
        const refused = isSnowleaseError(error) ? forceRefused.safeParse(error.details["answer"]) : undefined;
        if (refused?.success === true) return refused.data;
        if (isSnowleaseError(error, "NOT_FOUND")) return { outcome: "absent" };
        throw error;
      }
    },

    async pin(namespace, workerId, reason, owner) {
      const body: PinBody = { reason, owner: owner?.ip, usedUntil: owner?.usedUntil };
      await call({ method: "PUT", path: pathOf(namespace, "workers", workerId, "pin"), body });
    },

    async unpin(namespace, workerId) {
      try {
        await once({ method: "DELETE", path: pathOf(namespace, "workers", workerId, "pin") });
        return true;
      } catch (error) {
        if (isSnowleaseError(error, "NOT_FOUND")) return false;
        throw error;
      }
    },

    async pinAll(namespace, pins) {
      const body: PinsBody = {
        pins: pins.map(({ workerId, reason, owner }) => {
          return { workerId, reason, owner: owner?.ip, usedUntil: owner?.usedUntil };
        }),
      };
      await call({ method: "PUT", path: pathOf(namespace, "pins"), body });
    },

    async unpinAll(namespace, workerIds) {
      const body: UnpinsBody = { workerIds };
      const path = pathOf(namespace, "pins");
      return (await absentWhereMissing(once({ method: "DELETE", path, body, answer: unpinsAnswer })))?.unpinned ?? [];
    },

    async prune(namespace, before) {
      const path = pathOf(namespace, "prune");
      return (await once({ method: "POST", path, body: { before }, answer: pruneAnswer })).pruned;
    },

    async ping() {
      const { registry: _, ...pong } = await call({ method: "GET", path: "/readyz", answer: readyAnswer });
      return pong;
    },

    async close() {
      transport.close();
    },
  };
}

function pathOf(...parts: ReadonlyArray<string | number>): string {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}

async function absentWhereMissing<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isSnowleaseError(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

function query(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${given.map(([name, value]) => `${name}=${value}`).join("&")}`;
}

/** The grant as the port has it. */
function grantOf(json: ClaimAnswer): Grant {
  const { workerId, fence, from, until, clock, rollback, shared, file } = json;
  const recents = recentsOf(json);
  const store = file && new StoreFile({ path: file.path, device: BigInt(file.device), inode: BigInt(file.inode) });
  return {
    outcome: "granted",
    workerId,
    fence,
    from,
    until,
    clock,
    ...(recents !== undefined && { recents }),
    ...(rollback !== undefined && { rollback }),
    ...(shared !== undefined && { shared }),
    // In another file system (a container's), the path is another file's, or none.
    ...(store?.state === "same" && { store }),
  };
}
