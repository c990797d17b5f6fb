import { type Clock, systemClock } from "../../clock.ts";
import { type ErrorCode, isSnowleaseError, isUnanswered, SnowleaseError } from "../../id/errors.ts";
import type {
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
import { readClientTls } from "../client-tls.ts";
import { shownUrl } from "../url.ts";
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
  /** Whether to send the call again if the daemon may have got it. Default true. */
  readonly repeatable?: boolean;
}

/**
 * The loss of a lease if each address answered that the lease is of another registry. A daemon in front of them passes this on, because its
 * clients may know more addresses.
 */
export interface LostElsewhere extends Lost {
  readonly elsewhere: true;
}

const elsewhere: LostElsewhere = { outcome: "lost", reason: "forgotten", elsewhere: true };

const defaultTimeout = 5000;
const defaultLimit = 1000;
/** No registry looks at more preferred worker IDs than this. */
const mostPreferred = 8;

/**
 * The registry of a daemon, over HTTP: `http://HOST:PORT`, `https://…` or `unix:PATH`. If one of several addresses fails or says to wait,
 * the client asks the next one. All addresses must be daemons of one registry. `openRegistry` takes care of this.
 *
 * The client repeats claims (idempotent by token), renewals and releases within `operationTimeout` if their answer was lost. It repeats
 * forced releases, unpinning and pruning only if they were never sent.
 * @throws SnowleaseError CONFIG_INVALID for a text that is not an address.
 */
export function daemonRegistry(addresses: readonly string[], options: DaemonRegistryOptions = {}): Registry {
  const { operationTimeout = defaultTimeout, clock = systemClock, token, settings = {} } = options;
  const usesTls = addresses.some((address) => address.startsWith("https:"));
  const tls = readClientTls(settings, usesTls, "https:");
  const transport = httpTransport(addresses, { operationTimeout, clock, token, tls });

  function reply<Answer, Body, Query extends object | undefined>(
    { method, path, answer }: Call<Answer, Body, Query>,
    where: PathParameters,
    { body, query, receipt, repeatable = true }: CallInput<NoInfer<Body>, NoInfer<Query>> = {},
  ): Promise<Reply<Answer>> {
    return transport.call({ method, path: filled(path, where) + queryOf(query), body, receipt, answer, repeatable });
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
    // Field by field, because not every name of the port is one of the API.
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
    const usage = used && { until: used.until, ...checkpointJson(used.checkpoint), ...recentsJson(used.recents) };
    const body = { token, fence, now, ...turnsJson(request), ...usage };
    return orLost(reply(leases.releaseByDelete, { namespace, workerId }, { body, receipt }), () => ({
      outcome: "released",
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

    claim,

    async renew(request) {
      const { namespace, workerId, fence, token, clock: now, window: windowMs, checkpoint, receipt } = request;
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
      const pages = await pagesOf(limit, undefined, (left, before) => {
        const query = { from, until, before, limit: left };
        return instead("NOT_FOUND", { rows: [] }, call(workers.history, { namespace, workerId }, { query }));
      });
      return pages.toReversed().flat().map(historyOf);
    },

    async forceRelease({ namespace, workerId, force, fence, resetWindow }): Promise<ForceReleased> {
      // The caller of the port has already confirmed this.
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

    /** Renews with the fence 0, which no claim has. The daemon rehearses that renewal, and answers that such a claim is over. */
    async rehearse(namespace) {
      const body = { token: "0".repeat(32), fence: 0, now: Date.now() };
      await orLost(call(leases.renew, { namespace, workerId: 0 }, { body }), () => ({ outcome: "renewed" }));
    },

    endQuarantine({ namespace, era }) {
      return call(namespaces.endQuarantine, { namespace }, { body: { era } });
    },

    async remove({ namespace, era, forget }) {
      // The caller of the port has already confirmed this.
      const body = { era, forget, iKnow: true, whileHeld: true };
      try {
        await call(namespaces.remove, { namespace }, { body, repeatable: false });
      } catch (error) {
        if (!isSnowleaseError(error) || !isUnanswered(error)) throw error;
        const { message, details } = error;
        const advice = `The removal of namespace \`${namespace}\` may be under way: look with \`snowlease quarantine\`.`;
        throw new SnowleaseError(error.code, `${message} ${advice}`, details, { cause: error });
      }
    },

    async scope(namespace) {
      const { scope } = await call(namespaces.scope, { namespace });
      const shown = addresses.map((address) => (address.startsWith("unix:") ? address : shownUrl(new URL(address))));
      return `all who use ${shown.length === 1 ? "the daemon" : "the daemons"} ${shown.join(", ")}, and ${scope}`;
    },

    async ping() {
      const { registry, behind = registry, ...pong } = await call(readiness, {});
      return { ...pong, behind };
    },

    async close() {
      transport.close();
    },
  };
}

function filled(path: string, where: PathParameters): string {
  return path.replace(/:(\w+)/g, (_, name: keyof PathParameters) => encodeURIComponent(where[name] ?? ""));
}

function queryOf(parameters: object = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${given.map(([name, value]) => `${name}=${value}`).join("&")}`;
}

/** The answer, or `value` if the daemon refuses with this code. */
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

/** The value of a detail of a problem. Throws the error if it does not have this detail. */
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
    // In another file system (a container's), the path is that of another file, or of no file.
    ...(store?.state === "same" && { store }),
  };
}
