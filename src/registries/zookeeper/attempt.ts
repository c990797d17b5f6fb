import { isIn, type PoolBounds } from "../../id/pool-bounds.ts";
import type { ClaimKey, ClaimRequest, HistoryRow, InitRequest } from "../../rule/registry.ts";
import type { Era } from "../../rule/era.ts";
import type { NamespaceLimits } from "../../rule/limits.ts";
import { checkUnnoted } from "../../rule/namespace.ts";
import { newNamespace, type NewNamespace } from "../../rule/new-namespace.ts";
import type { Stored } from "../../rule/window.ts";
import { Changed } from "../engine/operate.ts";
import type {
  StoreAttempt,
  ClaimAttempt,
  RecordChange,
  Snapshot,
  SnapshotPurpose,
  StoredNamespace,
} from "../compare-and-set/store.ts";
import { beginClaim } from "./claim.ts";
import { BeatenAt, commit, type CommitExtras } from "./commit.ts";
import { asShown, ephemeralsOf } from "./ephemeral.ts";
import { eraseBelow, removeNamespace } from "./erase.ts";
import { endOf } from "./history.ts";
import type { Nodes } from "./nodes.ts";
import { eraBytes, jsonBytes, metaBytes, readNumber, type StoredNode } from "./records.ts";
import { forgetRest } from "./rests.ts";
import type { Node, Write, ZooKeeperSession } from "./session.ts";
import { type Beginning, readNode, type ZooKeeperStore, type ZooKeeperTry } from "./store.ts";
import { forgetToken, guardUnused, put, refile, replaceLost } from "./writes.ts";

/** One attempt at an operation, on the nodes of a namespace. */
export class ZooKeeperAttempt implements StoreAttempt<StoredNode> {
  readonly store: ZooKeeperStore;
  readonly nodes: Nodes;
  readonly tried: ZooKeeperTry;
  readonly waited: number;
  #begun: Beginning<unknown> | undefined;
  /** The paths of the worker ID's ephemeral nodes, by their tokens. */
  #ephemerals: ReadonlyMap<string, readonly string[]> = new Map();
  /** The parent of the hints: see `guardUnused`. */
  #hints: Node | undefined;
  /** The writes that lower the hints of the worker ID's pools. */
  #lowered: readonly Write[] = [];

  constructor(store: ZooKeeperStore, namespace: string, tried: ZooKeeperTry) {
    this.store = store;
    this.nodes = store.nodes(namespace);
    this.tried = tried;
    this.waited = tried.waited;
  }

  /** Reads the clock, the namespace, and more, in one round trip. */
  async begin<Read>(reads: (session: ZooKeeperSession) => Promise<Read>): Promise<Beginning<Read>> {
    const begun = await this.store.begin(this.tried.exchange, this.nodes, reads);
    this.#begun = begun;
    return begun;
  }

  async look(): Promise<StoredNamespace | undefined> {
    return (await this.begin(async () => undefined)).state;
  }

  async create(layout: string, request: Partial<NamespaceLimits> & Pick<InitRequest, "new">): Promise<StoredNamespace> {
    const { state, unknown, clock } = this.#begun ?? (await this.begin(async () => undefined));
    if (state !== undefined) return state;
    const { nodes } = this;
    if (request.new === true) checkUnnoted(nodes.namespace, unknown?.noted?.quarantineEnd);
    await this.store.makeNamespace(this.tried.exchange, nodes, newNamespace(layout, request, clock, unknown?.noted));
    throw new Changed("the namespace was created");
  }

  /** The node of the era, which the namespace keeps when it is made. */
  async note(era: Era): Promise<void> {
    const { nodes } = this;
    const { era: node } = this.#reading;
    const data = eraBytes(era, node);
    await commit(this.tried.exchange, [
      // Proves that there is still no namespace.
      { op: "create", path: nodes.meta, contested: true },
      { op: "remove", path: nodes.meta },
      node === undefined
        ? { op: "create", path: nodes.era, data, contested: true }
        : { op: "set", path: nodes.era, data, version: node.version },
    ]);
  }

  async putEra(era: Era, before?: { readonly row: StoredNode | undefined; readonly workerId: number }): Promise<void> {
    const { nodes } = this;
    const { era: node } = this.#reading;
    const writes: Write[] = [{ op: "set", path: nodes.era, data: eraBytes(era, node), version: node?.version ?? 0 }];
    if (before !== undefined) {
      const path = nodes.state(before.workerId);
      if (before.row !== undefined) writes.push({ op: "check", path, version: before.row.version });
      // Proves that there is still no record.
      else writes.push({ op: "create", path, contested: true }, { op: "remove", path });
    }
    await commit(this.tried.exchange, writes);
  }

  async replace(made: NewNamespace): Promise<void> {
    const { nodes } = this;
    const { era, meta } = this.#reading;
    await commit(this.tried.exchange, [
      { op: "set", path: nodes.era, data: eraBytes(made.era, era), version: era?.version ?? 0 },
      { op: "set", path: nodes.meta, data: metaBytes(made, meta), version: meta?.version ?? 0 },
    ]);
  }

  async erase(note: Era | undefined): Promise<boolean> {
    const { nodes, store, tried } = this;
    const halt = tried.deadline - store.connection.operationTimeout / 2;
    if (!(await eraseBelow(this, halt))) return false;
    await removeNamespace(tried.exchange, nodes, this.#reading, note);
    store.forgetFolders(nodes);
    return true;
  }

  /** Each operation reads behind a write of its own, so no read lags: there is nothing to confirm. */
  async confirm(): Promise<void> {}

  async snapshot(purpose: SnapshotPurpose, workerIds: readonly number[]): Promise<Snapshot<StoredNode>> {
    const { nodes } = this;
    const ends = purpose === "release" || purpose === "force";
    const pins = purpose === "pin" || purpose === "unpin";
    const [workerId = 0] = workerIds;
    const { state, unknown, read } = await this.begin((session) =>
      Promise.all([
        Promise.all(workerIds.map((id) => readNode(session, nodes, id))),
        ends ? ephemeralsOf(session, nodes, workerId) : undefined,
        pins ? session.get(nodes.hints) : undefined,
        purpose === "unpin" ? session.list(nodes.hints) : undefined,
      ]),
    );
    const [records, ephemerals = new Map<string, readonly string[]>(), hints, pools = []] = read;
    this.#ephemerals = ephemerals;
    this.#hints = hints;
    if (purpose === "unpin" && records[0]?.record.fence === 0) this.#lowered = await this.#lowerHints(workerId, pools);
    if (!ends) return { state, unknown, records };
    const shown = records.map((each) => each && { ...each, shown: asShown(each.record, ephemerals) });
    return { state, unknown, records: shown };
  }

  claim(request: ClaimRequest): Promise<ClaimAttempt> {
    return beginClaim(this, request);
  }

  async renew({ before, after }: RecordChange<StoredNode>): Promise<void> {
    const { nodes, store } = this;
    const { clock, session } = this.#reading;
    const path = nodes.ephemeral(after.workerId, after.token ?? "");
    const isKnown = store.ephemerals.has(session, path);
    const writes: Write[] = put(nodes, after, before);
    if (!isKnown) writes.push({ op: "create", path, ephemeral: true });
    const writer = await this.commit(writes);
    // Where the ephemeral node's time came in between, the next renewal creates it again.
    if (!isKnown || store.ephemerals.has(writer, path)) store.ephemerals.note(writer, nodes, after, clock);
  }

  async end({ before, after }: RecordChange<StoredNode>, how: NonNullable<HistoryRow["end"]>): Promise<void> {
    const { nodes } = this;
    const { workerId } = after;
    const { token = "" } = before.record;
    const gone = (how === "released" && this.#ephemerals.get(token)) || [];
    const writes: Write[] = [
      ...put(nodes, after, before),
      ...forgetToken(nodes, before),
      ...endOf(nodes, before.record, after.until, this.#reading.clock, how),
      ...gone.map((path) => ({ op: "remove", path }) as const),
    ];
    // Claims notice an ephemeral node that is removed, without this.
    await this.commit(writes, { also: (session) => (gone.length > 0 ? [] : [forgetRest(session, nodes, workerId)]) });
    if (how === "released") this.store.ephemerals.forget(nodes.ephemeral(workerId, token));
  }

  async pin(changes: readonly RecordChange<StoredNode | undefined>[]): Promise<void> {
    const { nodes, store } = this;
    for (const { before, after } of changes) {
      const { workerId, owner } = after;
      const writes: Write[] = [
        ...put(nodes, after, before),
        ...guardUnused(nodes, before, this.#hints),
        ...refile((ip) => nodes.ofOwner(ip, workerId), before?.record.owner, owner),
      ];
      await this.commitRecord(workerId, writes, {
        folders: [...store.foldersFor(nodes, workerId), ...(owner === undefined ? [] : [nodes.owner(owner)])],
      });
    }
  }

  async unpin(changes: readonly RecordChange<StoredNode, Stored | undefined>[]): Promise<void> {
    const { nodes } = this;
    for (const { before, after } of changes) {
      const { workerId, owner } = before.record;
      const writes = [
        ...(after === undefined ? this.#forgetUnused(before) : put(nodes, after, before)),
        ...guardUnused(nodes, before, this.#hints),
        ...refile((ip) => nodes.ofOwner(ip, workerId), owner, undefined),
      ];
      await this.commit(writes, { also: (session) => [forgetRest(session, nodes, workerId)] });
    }
  }

  async lost({ workerId, token }: ClaimKey, before: StoredNode | undefined): Promise<void> {
    if (before?.record.token === token) return;
    await this.store.ephemerals.remove(this.nodes, workerId, token, this.tried.exchange);
  }

  /** Commits writes of the era that was read. @returns the number of the session that wrote. @throws BeatenAt */
  commit(writes: readonly Write[], extras?: CommitExtras): Promise<number> {
    const era: Write = { op: "check", path: this.nodes.era, version: this.#reading.era?.version ?? 0 };
    return commit(this.tried.exchange, [era, ...writes], extras);
  }

  /** The same for the writes of one record. Where an operator deleted that by hand, a new one takes its place. */
  async commitRecord(workerId: number, writes: readonly Write[], extras?: CommitExtras): Promise<number> {
    try {
      return await this.commit(writes, extras);
    } catch (error) {
      if (error instanceof BeatenAt && error.path === this.nodes.rows(workerId)) {
        const { state } = this.#reading;
        if (state !== undefined) await replaceLost(this.tried.exchange, this.nodes, workerId, state);
      }
      throw error;
    }
  }

  get #reading(): Beginning<unknown> {
    if (this.#begun === undefined) throw new Error("a write before a read");
    return this.#begun;
  }

  /** The writes that make a number unused again which was never claimed. */
  #forgetUnused({ record: { workerId }, version }: StoredNode): readonly Write[] {
    const record: Write = { op: "remove", path: this.nodes.state(workerId), version };
    return [record, { op: "remove", path: this.nodes.rows(workerId) }, ...this.#lowered];
  }

  async #lowerHints(workerId: number, pools: readonly string[]): Promise<readonly Write[]> {
    const around = pools.flatMap((name) => {
      const [, first, last] = /^(\d+)-(\d+)$/.exec(name) ?? [];
      const pool: PoolBounds = { first: Number(first), last: Number(last) };
      return isIn(pool, workerId) ? [this.nodes.hint(pool)] : [];
    });
    const hints = await this.tried.exchange((session) => Promise.all(around.map((path) => session.get(path))));
    return around.flatMap((path, i): Write[] => {
      const node = hints[i];
      if (node === undefined) return [];
      // Also a lower hint is written: a claim that is about to raise it must be beaten.
      const data = jsonBytes(Math.min(readNumber(node, path), workerId));
      return [{ op: "set", path, data, version: node.version }];
    });
  }
}
