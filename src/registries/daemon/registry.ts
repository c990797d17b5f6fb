import { type Clock, systemClock } from "../../lease/clock.ts";
import {
  configInvalid,
  type ErrorCode,
  ignoreRefusal,
  isSnowleaseError,
  type SnowleaseError,
} from "../../id/errors.ts";
import type {
  ClaimKey,
  ClaimRequest,
  ForceReleased,
  Grant,
  Lost,
  Refusal,
  Registry,
  Released,
  ReleaseRequest,
} from "../../rule/registry.ts";
import type { Call } from "../../api/call.ts";
import { checkpointJson, historyOf, pinJson, recentsJson, recentsOf, turnsJson, workerOf } from "../../api/codec.ts";
import * as leases from "../../api/leases.ts";
import * as namespaces from "../../api/namespaces.ts";
import { forceRefused, loss, refusal } from "../../api/problem.ts";
import type { Schema } from "../../api/schema.ts";
import { readiness } from "../../api/system.ts";
import * as workers from "../../api/workers.ts";
import { StoreFile } from "../../store-file.ts";
import { BoundedMap } from "../bounded-map.ts";
import { AddressComparison, type AskedAddress } from "./mixed-list.ts";
import { readClientTls } from "../client-tls.ts";
import { httpTransport, type Reply } from "./transport.ts";

export interface DaemonRegistryOptions {
  /** Deadline of one operation, ms. Default 5 s. */
  readonly operationTimeout?: number | undefined;
  readonly clock?: Clock | undefined;
  /** For addresses without a login. */
  readonly token?: string | undefined;
  /** `tlsCa`, `tlsCert`, `tlsKey`: PEM files for https. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

interface PathParameters {
  readonly namespace?: string;
  readonly workerId?: number;
}

interface CallInput<Body, Query> {
  readonly body?: Body;
  readonly query?: Query;
  readonly receipt?: string | undefined;
  /** Whether it may be sent again where it may have arrived. Default true. */
  readonly repeatable?: boolean;
}

/**
 * Each address answered that the lease is of another registry. A daemon in front of them passes this on, since its clients may know more
 * addresses.
 */
export interface LostElsewhere extends Lost {
  readonly elsewhere: true;
}

const elsewhere: LostElsewhere = { outcome: "lost", reason: "forgotten", elsewhere: true };

const defaultTimeout = 5000;
const defaultLimit = 1000;
const mostNames = 10_000;
/** Doubted leases that are remembered: once one is, claims wait for all addresses, so there are few. */
const mostDoubted = 10_000;
/** At most so many preferred worker IDs are looked at by any registry. */
const mostPreferred = 8;

/**
 * The registry of a daemon, over HTTP: `http://HOST:PORT`, `https://…` or `unix:PATH`; of several addresses the next one is asked
 * when one fails or says to wait. They must be daemons of one registry: a claim compares what they have, and CONFIG_INVALID refuses others.
 *
 * Claims (idempotent by token), renewals and releases are repeated within `operationTimeout` when their answer was lost; forced
 * releases, unpinning and pruning only when they were never sent.
 * @throws SnowleaseError CONFIG_INVALID for an address that is none.
 */
export function daemonRegistry(addresses: readonly string[], options: DaemonRegistryOptions = {}): Registry {
  const { operationTimeout = defaultTimeout, clock = systemClock, token, settings = {} } = options;
  const usesTls = addresses.some((address) => address.startsWith("https:"));
  const tls = readClientTls(settings, usesTls, "https:");
  const transport = httpTransport(addresses, { operationTimeout, clock, token, tls });

  /** Leases that were granted by one of several registries, as a late answer showed. Many of them may never be renewed. */
  const doubted = new BoundedMap<string, true>(mostDoubted);
  const slow = new Set<string>();
  /** Namespaces of which a late answer showed different registries. */
  const mixed = new Set<string>();

  function reply<Answer, Body, Query extends object | undefined>(
    { method, path, answer }: Call<Answer, Body, Query>,
    where: PathParameters,
    { body, query, receipt, repeatable = true }: CallInput<NoInfer<Body>, NoInfer<Query>> = {},
  ): Promise<Reply<Answer>> {
    const sent = body && ((waited: number): Body => presentBody(body, waited));
    return transport.call({
      method,
      path: filled(path, where) + queryOf(query),
      body: sent,
      receipt,
      answer,
      repeatable,
    });
  }

  async function call<Answer, Body, Query extends object | undefined>(
    what: Call<Answer, Body, Query>,
    where: PathParameters,
    input: CallInput<NoInfer<Body>, NoInfer<Query>> = {},
  ): Promise<Answer> {
    return (await reply(what, where, input)).answer;
  }

  async function claim(request: ClaimRequest): Promise<Grant | Refusal | Lost> {
    const { namespace, holder, lead: leadMs, clock: now, window: windowMs, recall: receipt, ...rest } = request;
    const { token, workerId, pool, layout, reuse, continues, limits, shared } = rest;
    const { host, ip, pid, instance } = holder;
    const preferred = rest.preferred?.slice(0, mostPreferred);
    // Field by field: not every name of the port is one of the API.
    const what = { token, workerId, pool, preferred, now, windowMs, layout, reuse, continues, leadMs, limits, shared };
    try {
      const body = { ...what, host, ip, pid, instance };
      return grantFrom(await reply(leases.claim, { namespace }, { body, receipt }));
    } catch (error) {
      // A receipt of another registry proves nothing here.
      if (isSnowleaseError(error, "OTHER_REGISTRY") && receipt !== undefined) {
        return claim({ ...request, recall: undefined });
      }
      if (isSnowleaseError(error, "LEASE_LOST") && error.details["reason"] !== undefined) return lostBy(error);
      return detailOf(error, "refusal", refusal);
    }
  }

  function release(request: ReleaseRequest): Promise<Released | Lost> {
    const { namespace, workerId, fence, token, clock: now, used, receipt } = request;
    doubted.delete(claimName(request));
    const usage = used && { until: used.until, ...checkpointJson(used.checkpoint), ...recentsJson(used.recents) };
    const body = { token, fence, now, ...turnsJson(request), ...usage };
    return orLost(reply(leases.releaseByDelete, { namespace, workerId }, { body, receipt }), () => ({
      outcome: "released",
    }));
  }

  /** A claim at one of several addresses. Refuses addresses of different registries. */
  async function claimComparing(request: ClaimRequest): Promise<Grant | Refusal | Lost> {
    const { namespace, token } = request;
    const comparison = new AddressComparison(idsOf(namespace), namespace, clock, slow);
    const answer = await claim(request);
    const isGranted = answer.outcome === "granted";
    const key = isGranted ? { namespace, workerId: answer.workerId, fence: answer.fence, token } : undefined;
    const isDoubted = mixed.has(namespace);
    const error = await comparison.difference(isGranted, isDoubted, (difference) => {
      mixed.add(namespace);
      const what = `${difference}: the lease that one of them granted ends at its next renewal; name only daemons of one registry.`;
      process.emitWarning(what, { type: "SnowleaseWarning", code: "SNOWLEASE_MIXED_LIST" });
      if (key !== undefined) doubted.set(claimName(key), true);
    });
    if (error === undefined) {
      if (isDoubted) mixed.delete(namespace);
      return answer;
    }
    if (isGranted && key !== undefined) {
      const { from, recents, receipt } = answer;
      // If this fails, the worker ID rests for a window.
      await release({ ...key, clock: request.clock, receipt, used: { until: from, recents } }).catch(ignoreRefusal);
    }
    throw error;
  }

  function idsOf(namespace: string): readonly AskedAddress[] {
    const { method, path, answer } = namespaces.read;
    const call = { method, path: filled(path, { namespace }), body: undefined, receipt: undefined, answer };
    return transport.each.map(({ address, ask }) => ({
      address,
      async ask() {
        const told = await ask({ ...call, repeatable: true });
        if (!isSnowleaseError(told)) return told.answer.id;
        return told.code === "NOT_FOUND" ? null : undefined;
      },
    }));
  }

  return {
    kind: "daemon",

    init({ namespace, ...body }) {
      return call(namespaces.init, { namespace }, { body });
    },

    describe(namespace) {
      return instead("NOT_FOUND", undefined, call(namespaces.read, { namespace }));
    },

    async namespaces({ after, limit = defaultLimit } = {}) {
      try {
        const pages = await pagesOf(Math.min(limit, mostNames), after, async (left, after) => {
          const { namespaces: rows, next } = await call(namespaces.list, {}, { query: { after, limit: left } });
          return { rows, next };
        });
        return pages.flat();
      } catch (error) {
        if (!isSnowleaseError(error, "NOT_FOUND")) throw error;
        throw configInvalid(
          "This daemon cannot list namespaces: it is of an earlier version, or its registry cannot; update it, or name the registry itself with `--registry`.",
        );
      }
    },

    claim: addresses.length > 1 ? claimComparing : claim,

    async renew(request) {
      const { namespace, workerId, fence, token, clock: now, window: windowMs, checkpoint, receipt } = request;
      // Which of the registries would renew it is chance.
      const name = claimName(request);
      if (doubted.get(name) === true) {
        doubted.delete(name);
        return { outcome: "lost", reason: "forgotten" };
      }
      const body = { token, fence, now, windowMs, ...turnsJson(request), ...checkpointJson(checkpoint) };
      const renewal = reply(leases.renew, { namespace, workerId }, { body, receipt });
      return orLost(renewal, ({ answer: { from, until, clock, turn }, receipt }) => {
        return { outcome: "renewed", from, until, clock, turn, receipt };
      });
    },

    release,

    takeBlocks({ namespace, workerId, fence, token, first, spans, blocks, held, ...rest }) {
      const body = { token, fence, first, spans, blocks, held, ...turnsJson(rest) };
      return orLost(call(leases.takeBlocks, { namespace, workerId }, { body }), ({ blocks }) => {
        return { outcome: "taken", blocks };
      });
    },

    async workers(namespace, { state, after, limit = defaultLimit } = {}) {
      const pages = await pagesOf(limit, after, async (left, after) => {
        const query = { state, after, limit: left };
        const page = await instead("NOT_FOUND", { workers: [] }, call(workers.list, { namespace }, { query }));
        return { rows: page.workers, next: page.next };
      });
      return pages.flat().map(workerOf);
    },

    async worker(namespace, workerId) {
      const found = await instead("NOT_FOUND", undefined, call(workers.read, { namespace, workerId }));
      return found && workerOf(found);
    },

    async history(namespace, workerId, { from, until, limit = defaultLimit } = {}) {
      const pages = await pagesOf(limit, undefined, (left, before: number | undefined) => {
        const query = { from, until, before, limit: left };
        return instead("NOT_FOUND", { rows: [] }, call(workers.history, { namespace, workerId }, { query }));
      });
      return pages.toReversed().flat().map(historyOf);
    },

    async forceRelease({ namespace, workerId, force, fence, resetWindow }): Promise<ForceReleased> {
      // The caller of the port was asked already.
      const body = { force, fence, ...(resetWindow === true && { resetWindow, iKnow: true }) };
      try {
        const answer = await call(workers.forceRelease, { namespace, workerId }, { body, repeatable: false });
        return { outcome: "released", ...answer };
      } catch (error) {
        if (isSnowleaseError(error, "NOT_FOUND")) return { outcome: "absent" };
        return detailOf(error, "answer", forceRefused);
      }
    },

    pin(namespace, workerId, reason, owner) {
      return call(workers.pin, { namespace, workerId }, { body: pinJson({ reason, owner }) });
    },

    unpin(namespace, workerId) {
      const unpinned = call(workers.unpin, { namespace, workerId }, { repeatable: false }).then(() => true);
      return instead("NOT_FOUND", false, unpinned);
    },

    pinAll(namespace, pins) {
      const body = { pins: pins.map(({ workerId, ...pin }) => ({ workerId, ...pinJson(pin) })) };
      return call(workers.pinAll, { namespace }, { body });
    },

    async unpinAll(namespace, workerIds) {
      const answer = call(workers.unpinAll, { namespace }, { body: { workerIds }, repeatable: false });
      return (await instead("NOT_FOUND", { unpinned: [] }, answer)).unpinned;
    },

    async prune(namespace, before) {
      return (await call(namespaces.prune, { namespace }, { body: { before }, repeatable: false })).pruned;
    },

    endQuarantine({ namespace, era }) {
      return call(namespaces.endQuarantine, { namespace }, { body: { era } });
    },

    dropNamespace({ namespace, ...body }) {
      return call(namespaces.drop, { namespace }, { body, repeatable: false });
    },

    async ping() {
      const { registry: _, ...pong } = await call(readiness, {});
      return pong;
    },

    async close() {
      transport.close();
    },
  };
}

/** What an attempt sends: with the clock of the call's beginning, its caller's clock would seem to be turned back. */
function presentBody<Body>(body: Body, waited: number): Body {
  const { now } = body as { readonly now?: unknown };
  return typeof now === "number" ? { ...body, now: now + waited } : body;
}

function claimName({ namespace, workerId, fence }: Omit<ClaimKey, "token">): string {
  return `${namespace}/${workerId}/${fence}`;
}

function filled(path: string, where: PathParameters): string {
  return path.replace(/:(\w+)/g, (_, name: keyof PathParameters) => encodeURIComponent(where[name] ?? ""));
}

function queryOf(parameters: object = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
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

async function orLost<Answer, Outcome>(
  answer: Promise<Answer>,
  read: (answer: Answer) => Outcome,
): Promise<Outcome | Lost> {
  try {
    return read(await answer);
  } catch (error) {
    if (isSnowleaseError(error, "LEASE_LOST")) return lostBy(error);
    if (isSnowleaseError(error, "OTHER_REGISTRY")) return elsewhere;
    throw error;
  }
}

function lostBy({ details }: SnowleaseError): Lost {
  const told = loss.safeParse(details);
  return { outcome: "lost", ...told.data };
}

/** What a problem says in one of its details. Throws the error where it says nothing there. */
function detailOf<Detail>(error: unknown, name: string, schema: Schema<Detail>): Detail {
  const detail = isSnowleaseError(error) ? schema.safeParse(error.details[name]) : undefined;
  if (detail?.success === true) return detail.data;
  throw error;
}

/** Asks for pages until they have `limit` rows, or there are no more. */
async function pagesOf<Row, Place extends number | string>(
  limit: number,
  first: Place | undefined,
  ask: (left: number, next: Place | undefined) => Promise<{ rows: readonly Row[]; next?: Place | undefined }>,
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
function grantFrom({ answer: json, receipt }: Reply<leases.ClaimAnswer>): Grant {
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
    ...(receipt !== undefined && { receipt }),
    // In another file system (a container's), the path is another file's, or none.
    ...(store?.state === "same" && { store }),
  };
}
