import { type Clock, systemClock } from "../../lease/clock.ts";
import { type ErrorCode, isSnowleaseError } from "../../id/errors.ts";
import type { ForceReleased, Grant, Lost, Registry } from "../../rule/registry.ts";
import { grantOf } from "../../rule/window.ts";
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
import type { Schema } from "../../api/schema.ts";
import { StoreFile } from "../../store-file.ts";
import type {
  BlocksBody,
  ClaimBody,
  ForceReleaseBody,
  InitBody,
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

  const request =
    (repeatable: boolean) =>
    <Answer = void>(
      method: ApiCall<Answer>["method"],
      path: string,
      contract: Pick<ApiCall<Answer>, "body" | "answer"> = {},
    ): Promise<Answer> =>
      transport.call({ method, path, ...contract, repeatable });
  const once = request(false);
  const call = request(true);

  return {
    kind: "daemon",

    init({ namespace, layout, ...limits }) {
      const body: InitBody = { layout, ...limits };
      return call("PUT", pathOf(namespace), { body, answer: namespaceAnswer });
    },

    describe(namespace) {
      return instead("NOT_FOUND", undefined, call("GET", pathOf(namespace), { answer: namespaceAnswer }));
    },

    async claim({ namespace, holder, lead: leadMs, clock: now, window: windowMs, ...rest }) {
      const { token, workerId, pool, layout, reuse, continues, limits } = rest;
      const { host, ip, pid, instance } = holder;
      const preferred = rest.preferred?.slice(0, mostPreferred);
      // Field by field: the daemon refuses what it does not know.
      const what = { token, workerId, pool, preferred, now, windowMs, layout, reuse, continues, leadMs, limits };
      const body: ClaimBody = { ...what, host, ip, pid, instance };
      try {
        return readGrant(await call("POST", pathOf(namespace, "leases"), { body, answer: claimAnswer }));
      } catch (error) {
        return detailOf(error, "refusal", refusal);
      }
    },

    renew({ namespace, workerId, fence, token, clock: now, window: windowMs, checkpoint }) {
      const body: RenewBody = { token, fence, now, windowMs, ...checkpointJson(checkpoint) };
      return orLost(call("PATCH", pathOf(namespace, "leases", workerId), { body, answer: renewAnswer }), (answer) => {
        const { from, until, clock } = answer;
        return { outcome: "renewed", from, until, clock };
      });
    },

    release({ namespace, workerId, fence, token, clock: now, used }) {
      const usage = used && { until: used.until, ...checkpointJson(used.checkpoint), ...recentsJson(used.recents) };
      const body: ReleaseBody = { token, fence, now, ...usage };
      return orLost(call("DELETE", pathOf(namespace, "leases", workerId), { body }), () => ({ outcome: "released" }));
    },

    takeBlocks({ namespace, workerId, fence, token, first, spans, blocks, held }) {
      const body: BlocksBody = { token, fence, first, spans, blocks, held };
      const path = pathOf(namespace, "leases", workerId, "blocks");
      return orLost(call("POST", path, { body, answer: blocksAnswer }), ({ blocks }) => ({ outcome: "taken", blocks }));
    },

    async workers(namespace, { state, after, limit = defaultLimit } = {}) {
      const pages = await pagesOf(limit, after, async (left, after) => {
        const path = pathOf(namespace, "workers") + query({ state, after, limit: left });
        const page = await instead("NOT_FOUND", undefined, call("GET", path, { answer: workersAnswer }));
        return { rows: page?.workers ?? [], next: page?.next };
      });
      return pages.flat().map(workerOf);
    },

    async worker(namespace, workerId) {
      const path = pathOf(namespace, "workers", workerId);
      const found = await instead("NOT_FOUND", undefined, call("GET", path, { answer: workerAnswer }));
      return found && workerOf(found);
    },

    async history(namespace, workerId, { from, until, limit = defaultLimit } = {}) {
      const path = pathOf(namespace, "workers", workerId, "history");
      const pages = await pagesOf(limit, undefined, (left, before) => {
        const page = path + query({ from, until, before, limit: left });
        return instead("NOT_FOUND", { rows: [] }, call("GET", page, { answer: historyAnswer }));
      });
      return pages.toReversed().flat().map(historyOf);
    },

    async forceRelease({ namespace, workerId, force, fence, resetWindow }): Promise<ForceReleased> {
      const path = pathOf(namespace, "workers", workerId, "release");
      // The caller of the port was asked already.
      const body: ForceReleaseBody = { force, fence, ...(resetWindow === true && { resetWindow, iKnow: true }) };
      try {
        return { outcome: "released", ...(await once("POST", path, { body, answer: forceReleaseAnswer })) };
      } catch (error) {
        if (isSnowleaseError(error, "NOT_FOUND")) return { outcome: "absent" };
        return detailOf(error, "answer", forceRefused);
      }
    },

    pin(namespace, workerId, reason, owner) {
      const body: PinBody = { reason, owner: owner?.ip, usedUntil: owner?.usedUntil };
      return call("PUT", pathOf(namespace, "workers", workerId, "pin"), { body });
    },

    unpin(namespace, workerId) {
      const unpinned = once("DELETE", pathOf(namespace, "workers", workerId, "pin"));
      return instead(
        "NOT_FOUND",
        false,
        unpinned.then(() => true),
      );
    },

    pinAll(namespace, pins) {
      const body: PinsBody = {
        pins: pins.map(({ workerId, reason, owner }) => {
          return { workerId, reason, owner: owner?.ip, usedUntil: owner?.usedUntil };
        }),
      };
      return call("PUT", pathOf(namespace, "pins"), { body });
    },

    async unpinAll(namespace, workerIds) {
      const body: UnpinsBody = { workerIds };
      const answer = once("DELETE", pathOf(namespace, "pins"), { body, answer: unpinsAnswer });
      return (await instead("NOT_FOUND", { unpinned: [] }, answer)).unpinned;
    },

    async prune(namespace, before) {
      return (await once("POST", pathOf(namespace, "prune"), { body: { before }, answer: pruneAnswer })).pruned;
    },

    async ping() {
      const { registry: _, ...pong } = await call("GET", "/readyz", { answer: readyAnswer });
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

function query(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${given.map(([name, value]) => `${name}=${value}`).join("&")}`;
}

/** The answer; or `value`, where the daemon refuses with this code. */
async function instead<Answer>(code: ErrorCode, value: Answer, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (isSnowleaseError(error, code)) return value;
    throw error;
  }
}

function orLost<Answer, Outcome>(answer: Promise<Answer>, read: (answer: Answer) => Outcome): Promise<Outcome | Lost> {
  return instead<Outcome | Lost>("LEASE_LOST", { outcome: "lost" }, answer.then(read));
}

/** What a problem says in one of its details. Throws the error where it says nothing there. */
function detailOf<Detail>(error: unknown, name: string, schema: Schema<Detail>): Detail {
  const detail = isSnowleaseError(error) ? schema.safeParse(error.details[name]) : undefined;
  if (detail?.success === true) return detail.data;
  throw error;
}

/** Asks for pages until they have `limit` rows, or there are no more. */
async function pagesOf<Row>(
  limit: number,
  first: number | undefined,
  ask: (left: number, next: number | undefined) => Promise<{ rows: readonly Row[]; next?: number | undefined }>,
): Promise<(readonly Row[])[]> {
  const pages: (readonly Row[])[] = [];
  let left = limit;
  for (let next = first; left > 0;) {
    const page = await ask(left, next);
    pages.push(page.rows);
    left -= page.rows.length;
    if (page.next === undefined || page.rows.length === 0) break;
    next = page.next;
  }
  return pages;
}

/** The grant as the port has it. */
function readGrant(json: ClaimAnswer): Grant {
  const { clock, rollback, shared, file } = json;
  const store = file && new StoreFile({ path: file.path, device: BigInt(file.device), inode: BigInt(file.inode) });
  return {
    ...grantOf({ ...json, recents: recentsOf(json) }, clock, rollback),
    ...(shared !== undefined && { shared }),
    // In another file system (a container's), the path is another file's, or none.
    ...(store?.state === "same" && { store }),
  };
}
