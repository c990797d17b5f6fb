// A registry in one document of any store that has a compare-and-set: an object store with If-Match, etcd, Consul, a file. Every
// operation reads the document, lets the rule decide, and replaces it only if no other client has replaced it in between.

import { type HistoryRow, Layout, type Lost, type NamespaceLimits, type Registry, SnowleaseError } from "snowlease";
import {
  admitClaim,
  answerOrError,
  checkEra,
  checkLayout,
  checkLimits,
  checkNew,
  checkPin,
  checkUnnoted,
  decideClaim,
  decideRelease,
  decideRenewal,
  decideUnknownRelease,
  decideUnknownRenewal,
  type Era,
  eraMark,
  forced,
  forceRefusal,
  infoOf,
  type NamespaceState,
  newNamespace,
  type NewNamespace,
  noNamespace,
  openedEra,
  separated,
  pinnedRecord,
  type PoolView,
  removedInOneStep,
  shownRecord,
  stateOf,
  storedToken,
  type Stored,
  type UnknownNamespace,
  unpinnedRecord,
  unusedRecord,
  type Verdict,
} from "snowlease/rule";

/** What the store has to be able to do. */
export interface Document {
  /** The newest text and its version; of a document that was never written "" and 0. */
  read(): Promise<{ readonly version: number; readonly text: string }>;
  /** Stores a text durably if `version` is still the newest; false if it is not. Throws when it cannot be known. */
  replace(version: number, text: string): Promise<boolean>;
}

interface Namespace extends NewNamespace {
  era: Era;
  records: Stored[];
  history: HistoryRow[];
}

/** The namespaces by name. */
class State extends Map<string, Namespace> {
  /** What holders proved of namespaces that do not exist: the eras with which these begin. */
  readonly noted = new Map<string, Era>();
}

/** Names the store in errors. */
const title = "The document";

/** A registry in a document. It reads all of it each time: for hundreds of worker IDs, not for millions. */
export function documentRegistry(document: Document, { operationTimeout = 5000 } = {}): Registry {
  let closed = false;
  /** The last step of this client. Steps wait for each other: of fifty claims at the same time, only one write would take effect. */
  let last: Promise<unknown> = Promise.resolve();

  /** One atomic step. Throws the error that it answers; what the step changed is stored then, unlike what it throws itself. */
  async function step<Answer>(decide: (state: State, now: number) => Answer | SnowleaseError): Promise<Answer> {
    const deadline = performance.now() + operationTimeout;
    const decision = last.then(() => decided(decide, deadline)).catch(told);
    last = decision.catch(() => undefined);
    const answer = await decision;
    if (answer instanceof SnowleaseError) throw answer;
    return answer;
  }

  /** Decides again where another client has replaced the document in between: nothing was applied then. */
  async function decided<Answer>(decide: (state: State, now: number) => Answer, deadline: number): Promise<Answer> {
    while (!closed && performance.now() < deadline) {
      const { version, text } = await document.read();
      const state = parse(text);
      const answer = decide(state, Date.now());
      const after = format(state);
      if (after === (text || format(new State())) || (await document.replace(version, after))) return answer;
    }
    const why = closed ? "is closed" : `could not be replaced within ${operationTimeout} ms: other clients are faster`;
    throw new SnowleaseError("REGISTRY_UNAVAILABLE", `${title} ${why}.`);
  }

  /** What went wrong with the document, as the library wants to be told. */
  function told(error: unknown): never {
    if (error instanceof SnowleaseError) throw error;
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `${title} did not answer: ${String(error)}.`,
      {},
      { cause: error },
    );
  }

  const registry: Registry = {
    kind: "document",

    async init(request) {
      const info = await step((state, now) => {
        const { namespace } = request;
        if (request.new === true) checkUnnoted(namespace, state.noted.get(namespace)?.quarantineEnd);
        const space = state.get(namespace) ?? created(state, namespace, request, now);
        checkLayout(request.namespace, request.layout, space.info);
        checkLimits(request.namespace, request, space.info);
        state.set(request.namespace, space);
        return infoOf(present(space, now));
      });
      await checkNew(registry, request, info);
      return info;
    },

    describe: (namespace) =>
      step((state, now) => {
        const space = state.get(namespace);
        return space && infoOf(present(space, now));
      }),

    receiptKey: (namespace) => step((state) => state.get(namespace)?.receiptKey),

    claim: (asked) =>
      step((state, now) => {
        const request = { ...asked, token: storedToken(asked.token) };
        const { namespace, layout, limits } = request;
        const space = state.get(namespace) ?? created(state, namespace, { layout, ...limits }, now);
        const view = viewOf(space.records);
        const { begins, refusal } = admitClaim(view, request, present(space, now), eraMark);
        state.set(request.namespace, space);
        if (begins !== undefined) space.era = begins;
        if (refusal !== undefined) return answerOrError(title, refusal);
        const { answer, store, before } = decideClaim(view, request, present(space, now));
        if (store === undefined) return answer;
        if (before !== undefined) end(space, before, now, "taken-over");
        put(space, store);
        const { workerId, fence, from, until, recents } = store;
        const claim = { workerId, fence, from, until, holder: request.holder, claimedAt: now };
        space.history.push(recents === undefined ? claim : { ...claim, continuedFrom: recents.from });
        return answer;
      }),

    renew: (asked) =>
      step((state, now) => {
        const request = { ...asked, token: storedToken(asked.token) };
        const space = state.get(request.namespace);
        if (space === undefined) {
          return noted(state, request.namespace, decideUnknownRenewal(unknown(state, request, now), request, eraMark));
        }
        const before = recordOf(space, request.workerId);
        return applied(space, now, decideRenewal(present(space, now), before, request, eraMark));
      }),

    release: (asked) =>
      step((state, now) => {
        const request = { ...asked, token: storedToken(asked.token) };
        const space = state.get(request.namespace);
        if (space === undefined) {
          return noted(state, request.namespace, decideUnknownRelease(unknown(state, request, now), request, eraMark));
        }
        const before = recordOf(space, request.workerId);
        return applied(space, now, decideRelease(present(space, now), before, request, eraMark));
      }),

    workers: (namespace, { state: wanted, after = -1, limit = 1000 } = {}) =>
      step((state, now) =>
        (state.get(namespace)?.records ?? [])
          .filter((record) => record.workerId > after && (wanted === undefined || stateOf(record, now) === wanted))
          .slice(0, Math.min(limit, 10_000))
          .map((record) => shownRecord(record, now)),
      ),

    worker: (namespace, workerId) =>
      step((state, now) => {
        const space = state.get(namespace);
        const record = space && recordOf(space, workerId);
        return record && shownRecord(record, now);
      }),

    history: (namespace, workerId, { from = -Infinity, until = Infinity, limit = 1000 } = {}) =>
      step((state) => {
        const space = state.get(namespace);
        const live = space && recordOf(space, workerId)?.until;
        const rows = (space?.history ?? [])
          .filter((row) => row.workerId === workerId)
          .map((row) => (row.end === undefined && live !== undefined ? { ...row, until: live } : row))
          .filter((row) => row.until > from && (row.continuedFrom ?? row.from) < until);
        return rows.slice(Math.max(0, rows.length - Math.min(limit, 10_000)));
      }),

    forceRelease: (request) =>
      step((state, now) => {
        const { namespace, workerId, resetWindow = false } = request;
        const space = state.get(namespace);
        const before = space && recordOf(space, workerId);
        const refusal = forceRefusal(before, request, now);
        if (refusal !== undefined) return refusal;
        if (space === undefined || before === undefined) return { outcome: "absent" };
        const record = forced(before, now, resetWindow);
        put(space, record);
        end(space, record, now, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: record.until };
      }),

    pin: (namespace, workerId, reason, owner) =>
      step((state, now) => {
        const space = state.get(namespace);
        if (space === undefined) throw noNamespace(namespace);
        checkPin({ workerId, reason, owner }, Layout.parse(space.info.layout).pool.last, now, space.info);
        put(space, pinnedRecord(recordOf(space, workerId) ?? unusedRecord(workerId), reason, owner));
      }),

    unpin: (namespace, workerId) =>
      step((state) => {
        const space = state.get(namespace);
        const record = space && recordOf(space, workerId);
        if (space === undefined || record?.pinned === undefined) return false;
        if (record.fence === 0) space.records = space.records.filter((one) => one !== record);
        else put(space, unpinnedRecord(record));
        return true;
      }),

    endQuarantine: (request) =>
      step((state, now) => {
        const space = state.get(request.namespace);
        if (space === undefined) throw noNamespace(request.namespace);
        checkEra(request, space.era.era);
        space.era = openedEra(present(space, now));
        return infoOf(present(space, now));
      }),

    separate: (request) =>
      step((state, now) => {
        const space = state.get(request.namespace);
        if (space === undefined) throw noNamespace(request.namespace);
        checkEra(request, space.era.era);
        Object.assign(space, separated(present(space, now)));
        return infoOf(present(space, now));
      }),

    remove: ({ namespace, era, forget = false }) =>
      step((state, now) => {
        const space = state.get(namespace);
        if (space === undefined) throw noNamespace(namespace);
        checkEra({ namespace, era }, space.era.era);
        state.delete(namespace);
        if (!forget) state.noted.set(namespace, removedInOneStep(present(space, now), space.records, eraMark));
      }),

    prune: (namespace, before) =>
      step((state) => {
        const space = state.get(namespace);
        if (space === undefined) throw noNamespace(namespace);
        const last = new Map(space.history.map((row) => [row.workerId, row]));
        const kept = space.history.filter((row) => row.until >= before || last.get(row.workerId) === row);
        const pruned = space.history.length - kept.length;
        space.history = kept;
        return pruned;
      }),

    ping: () => step((_, now) => ({ clock: now, durability: "What the document's store promises." })),

    async close() {
      closed = true;
    },
  };
  return registry;
}

function created(
  state: State,
  namespace: string,
  { layout, ...limits }: Partial<NamespaceLimits> & { readonly layout: string },
  now: number,
): Namespace {
  const made = newNamespace(layout, limits, now, state.noted.get(namespace));
  // What a step throws changes nothing, this neither.
  state.noted.delete(namespace);
  return { ...made, records: [], history: [] };
}

/** What the rule wants to know of a namespace that does not exist. */
function unknown(state: State, { namespace }: { readonly namespace: string }, clock: number): UnknownNamespace {
  return { clock, noted: state.noted.get(namespace) };
}

/** Notes that a holder proved a namespace which does not exist: this document was emptied. */
function noted(state: State, namespace: string, { begins, answer }: Verdict<Lost>): Lost | SnowleaseError {
  if (begins !== undefined) state.noted.set(namespace, begins);
  return answerOrError(title, answer);
}

/** The namespace as the rule wants to see it. */
function present({ info, era }: Namespace, clock: number): NamespaceState {
  return { info, ...era, clock };
}

/** Stores what a verdict says, and returns its answer. A receipt may have shown that this document is an older copy. */
function applied<Answer extends { readonly outcome: string }>(
  space: Namespace,
  now: number,
  { begins, record, end: how, answer }: Verdict<Answer>,
): Answer | SnowleaseError {
  if (begins !== undefined) space.era = begins;
  if (record !== undefined) put(space, record);
  if (record !== undefined && how !== undefined) end(space, record, now, how);
  return answerOrError(title, answer);
}

function recordOf({ records }: Namespace, workerId: number): Stored | undefined {
  return records.find((record) => record.workerId === workerId);
}

/** Stores a record; they stay in the order of their worker IDs. */
function put(space: Namespace, record: Stored): void {
  const others = space.records.filter(({ workerId }) => workerId !== record.workerId);
  space.records = [...others, record].toSorted((a, b) => a.workerId - b.workerId);
}

/** Notes how the newest claim of a worker ID ended, and where its window then stood. */
function end(
  space: Namespace,
  { workerId, until }: Stored,
  endedAt: number,
  how: NonNullable<HistoryRow["end"]>,
): void {
  const at = space.history.findLastIndex((row) => row.workerId === workerId);
  const row = space.history[at];
  if (row !== undefined && row.end === undefined) space.history[at] = { ...row, until, endedAt, end: how };
}

/** What a claim looks at. A larger store answers each of these from an index. */
function viewOf(records: readonly Stored[]): PoolView {
  const byAge = records.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
  const inPool = (pool: { first: number; last: number }): Stored[] =>
    byAge.filter(({ workerId }) => workerId >= pool.first && workerId <= pool.last);
  const open = (pool: { first: number; last: number }): Stored[] =>
    inPool(pool).filter(({ pinned }) => pinned === undefined);
  return {
    byToken: (token) => records.find((record) => record.token === token),
    byId: (workerId) => records.find((record) => record.workerId === workerId),
    firstUnused({ first, last }) {
      const used = new Set(records.map(({ workerId }) => workerId));
      for (let workerId = first; workerId <= last; workerId += 1) if (!used.has(workerId)) return workerId;
      return undefined;
    },
    oldest: (pool, limit) => open(pool).slice(0, limit),
    oldestOfHost: (pool, host, limit) =>
      open(pool)
        .filter(({ holder }) => holder?.host === host)
        .slice(0, limit),
    pinnedFor: (pool, ip, limit) =>
      inPool(pool)
        .filter(({ owner }) => owner === ip)
        .slice(0, limit),
    newestOfHost: (pool, host) => open(pool).findLast(({ holder }) => holder?.host === host),
  };
}

/** Recents are bytes, which JSON does not have. */
function format(state: State): string {
  return JSON.stringify([[...state], [...state.noted]], (_, value: unknown) =>
    value instanceof Uint8Array ? { base64: Buffer.from(value).toString("base64") } : value,
  );
}

function parse(text: string): State {
  const state = new State();
  if (text === "") return state;
  const [namespaces, noted] = JSON.parse(text, (_, value: { base64?: unknown } | null) =>
    typeof value?.base64 === "string" ? new Uint8Array(Buffer.from(value.base64, "base64")) : value,
  ) as [[string, Namespace][], [string, Era][]];
  for (const [name, space] of namespaces) state.set(name, space);
  for (const [name, era] of noted) state.noted.set(name, era);
  return state;
}
