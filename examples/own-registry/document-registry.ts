// A registry in one document of any store that has a compare-and-set: an object store with If-Match, etcd, Consul, a file. Every
// operation reads the document, decides, and replaces it only if no other client has replaced it in between.

import { type HistoryRow, type PoolBounds, type Registry, SnowleaseError } from "snowlease";
import {
  type AtomicStep,
  type AtomicStore,
  inOneStep,
  type Part,
  type Replacement,
  type Standing,
  type StoreChanges,
  type Stored,
  type StoreView,
} from "snowlease/store";

/** What the store has to be able to do. */
export interface Document {
  /** The newest text and its version; of a document that was never written "" and 0. */
  read(): Promise<{ readonly version: number; readonly text: string }>;
  /** Stores a text durably if `version` is still the newest; false if it is not. Throws when it cannot be known. */
  replace(version: number, text: string): Promise<boolean>;
}

/** What is kept under a name: the records by worker ID, and the claims that have ended, in the order in which they did. */
interface Namespace {
  readonly standing: Standing;
  readonly records: readonly Stored[];
  readonly ended: readonly HistoryRow[];
}

/** By name. */
type State = Map<string, Namespace>;

const nothing: Namespace = { standing: {}, records: [], ended: [] };

/** Names the store in errors. */
const title = "The document";

/** A registry in a document. It reads all of it each time: for hundreds of worker IDs, not for millions. */
export function documentRegistry(document: Document, { operationTimeout = 5000 } = {}): Registry {
  let closed = false;
  /** The last step of this client. Steps wait for each other: of fifty claims at the same time, only one write would take effect. */
  let last: Promise<unknown> = Promise.resolve();

  /** One atomic step. `waited`: how long it waited for those before it, ms. */
  function step<Answer>(work: (state: State, waited: number) => Answer): Promise<Answer> {
    const asked = performance.now();
    const answer = last
      .then(() => {
        const waited = Math.floor(performance.now() - asked);
        return decided((state) => work(state, waited), asked + operationTimeout);
      })
      .catch(told);
    last = answer.catch(() => undefined);
    return answer;
  }

  /** Works again where another client has replaced the document in between: nothing was applied then. */
  async function decided<Answer>(work: (state: State) => Answer, deadline: number): Promise<Answer> {
    while (!closed && performance.now() < deadline) {
      const { version, text } = await document.read();
      const state = parse(text);
      const answer = work(state);
      const after = format(state);
      if (after === (text || format(new Map())) || (await document.replace(version, after))) return answer;
    }
    const why = closed ? "is closed" : `could not be replaced within ${operationTimeout} ms: other clients are faster`;
    throw new SnowleaseError("REGISTRY_UNAVAILABLE", `${title} ${why}.`);
  }

  const store: AtomicStore = {
    kind: "document",
    title,
    atomically: (name, _, work) => step((state, waited) => work(stepOn(state, name, waited))),

    prune: (name, before) =>
      step((state) => {
        const { records, ended, ...space } = state.get(name) ?? nothing;
        const isLast = ({ workerId, fence }: HistoryRow): boolean =>
          records.some((record) => record.workerId === workerId && record.fence === fence);
        const kept = ended.filter((row) => row.until >= before || isLast(row));
        state.set(name, { ...space, records, ended: kept });
        return { pruned: ended.length - kept.length, isDone: true };
      }),

    ping: () => step(() => ({ clock: Date.now(), durability: "What the document's store promises." })),

    async close() {
      closed = true;
    },
  };
  return inOneStep(store);
}

/** What went wrong with the document, as the library wants to be told. */
function told(error: unknown): never {
  if (error instanceof SnowleaseError) throw error;
  const text = `${title} did not answer: ${String(error)}.`;
  throw new SnowleaseError("REGISTRY_UNAVAILABLE", text, {}, { cause: error });
}

/** Nothing else reads or writes this state, so that each change takes effect as a whole. */
function stepOn(state: State, name: string, waited: number): AtomicStep {
  const before = state.get(name) ?? nothing;
  return {
    waited,
    view: viewOf(before, Date.now()),
    commit: (changes) => void state.set(name, changed(before, changes)),
  };
}

/** What is kept under a name after these changes. */
function changed(before: Namespace, { becomes = before.standing, records }: StoreChanges): Namespace {
  // With a namespace that is gone, all its records and claims are.
  const kept = becomes.made === undefined ? nothing : before;
  return { ...records.reduce(replaced, kept), standing: becomes };
}

function replaced({ standing, records, ended }: Namespace, change: Replacement): Namespace {
  const others = records.filter(({ workerId }) => workerId !== change.workerId);
  const after = change.after === undefined ? others : [...others, change.after];
  return {
    standing,
    records: after.toSorted((a, b) => a.workerId - b.workerId),
    ended: change.ended === undefined ? ended : [...ended, change.ended],
  };
}

/** What operations look at. A store for more worker IDs answers each of these from an index. */
function viewOf({ standing, records, ended }: Namespace, clock: number): StoreView {
  const byAge = records.toSorted((a, b) => a.until - b.until || a.workerId - b.workerId);
  const inPool = ({ first, last }: PoolBounds): readonly Stored[] =>
    byAge.filter(({ workerId }) => workerId >= first && workerId <= last);
  const open = (pool: PoolBounds): readonly Stored[] => inPool(pool).filter(({ pinned }) => pinned === undefined);
  const ofHost = (pool: PoolBounds, host: string): readonly Stored[] =>
    open(pool).filter(({ holder }) => holder?.host === host);

  return {
    clock,
    standing,
    byToken: (token) => records.find((record) => record.token === token),
    byId: (workerId) => records.find((record) => record.workerId === workerId),
    firstUnused({ first, last }) {
      const used = new Set(records.map(({ workerId }) => workerId));
      for (let workerId = first; workerId <= last; workerId += 1) if (!used.has(workerId)) return workerId;
      return undefined;
    },
    oldest: (pool, limit) => open(pool).slice(0, limit),
    oldestOfHost: (pool, host, limit) => ofHost(pool, host).slice(0, limit),
    newestOfHost: (pool, host) => ofHost(pool, host).at(-1),
    pinnedFor: (pool, ip, limit) =>
      inPool(pool)
        .filter(({ owner }) => owner === ip)
        .slice(0, limit),
    page: (after, limit) =>
      partOf(
        records.filter(({ workerId }) => workerId > after),
        limit,
        (row) => row.workerId,
      ),
    ended(workerId, before, limit) {
      const rows = ended.filter((row) => row.workerId === workerId && row.fence < before);
      return partOf(rows.toReversed(), limit, (row) => row.fence);
    },
  };
}

/** The first rows of a list. `place`: of a row in it. */
function partOf<Row>(list: readonly Row[], limit: number, place: (row: Row) => number): Part<Row> {
  const rows = list.slice(0, limit);
  const end = rows.at(-1);
  return { rows, next: end === undefined || rows.length === list.length ? undefined : place(end) };
}

/** Rises where an older program must not go on. */
const schema = 1;

/** Recents are bytes, which JSON does not have. */
function format(state: State): string {
  return JSON.stringify({ schema, namespaces: Object.fromEntries(state) }, (_, value: unknown) =>
    value instanceof Uint8Array ? { base64: Buffer.from(value).toString("base64") } : value,
  );
}

function parse(text: string): State {
  if (text === "") return new Map();
  const found = JSON.parse(text, (_, value: { readonly base64?: unknown } | null) =>
    typeof value?.base64 === "string" ? new Uint8Array(Buffer.from(value.base64, "base64")) : value,
  ) as { readonly schema?: unknown; readonly namespaces: Record<string, Namespace> };
  if (found.schema === schema) return new Map(Object.entries(found.namespaces));
  const message = `${title} has schema ${String(found.schema)}, and this program knows ${schema}; run the one that wrote it.`;
  throw new SnowleaseError("SCHEMA_INCOMPATIBLE", message);
}
