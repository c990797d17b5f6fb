import { SnowleaseError } from "../../id/errors.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import type { NamespaceState } from "../compare-and-set/store.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import { OwnEphemerals } from "./ephemeral.ts";
import { baseOf, bucketOf, clockOf, type Nodes, nodesOf, numberOf } from "./nodes.ts";
import { type StoredNode, metaBytes, numberBytes, readMeta, readRecord, recordBytes } from "./records.ts";
import type { Node, ZooKeeperSession, Write } from "./session.ts";
import { operate, type ZooKeeperTry } from "./commit.ts";

/** What an operation reads first. */
export interface Beginning<Read> {
  /** The leader's clock, Unix ms. */
  readonly clock: number;
  /** Undefined where the namespace does not exist. ZooKeeper forgets nothing: there is one era. */
  readonly state: NamespaceState | undefined;
  readonly read: Read;
  readonly session: number;
}

/** The nodes of a registry, and what this client remembers of them. */
export class ZooKeeperStore {
  readonly connection: ZooKeeperConnection;
  readonly ephemerals: OwnEphemerals;
  readonly #chroot: string;
  readonly #base: string;
  /** Folders of buckets that exist: Snowlease never deletes one. */
  readonly #folders = new Set<string>();

  constructor(connection: ZooKeeperConnection, chroot: string) {
    this.connection = connection;
    this.ephemerals = new OwnEphemerals(connection);
    this.#chroot = chroot;
    this.#base = baseOf(chroot);
  }

  nodes(namespace: string): Nodes {
    return nodesOf(this.#base, namespace);
  }

  /** Makes attempts until one is done. */
  run<Answer>(work: (tried: ZooKeeperTry) => Promise<Answer>): Promise<Answer> {
    return operate(this.connection, work);
  }

  /**
   * One round trip: writes the node of the clock, and reads behind that write, so that no read is older. Creates that node where it is
   * missing.
   */
  async begin<Read>(
    deadline: number,
    nodes: Nodes,
    reads: (session: ZooKeeperSession) => Promise<Read>,
  ): Promise<Beginning<Read>> {
    const [clock, meta, read, session] = await this.connection.exchange(deadline, async (session) => [
      ...(await Promise.all([session.touch(clockOf(this.#base)), session.get(nodes.meta), reads(session)])),
      session.id,
    ]);
    if (clock !== undefined) {
      const state = meta && { info: readMeta(meta, nodes.meta), clock, era: 0, quarantineEnd: 0 };
      return { clock, state, read, session };
    }
    await this.#makeBase(deadline);
    return this.begin(deadline, nodes, reads);
  }

  /** The clock alone. */
  async now(deadline: number): Promise<number> {
    const clock = await this.connection.exchange(deadline, (session) => session.touch(clockOf(this.#base)));
    if (clock !== undefined) return clock;
    await this.#makeBase(deadline);
    return this.now(deadline);
  }

  async makeNamespace(deadline: number, nodes: Nodes, info: NamespaceInfo): Promise<void> {
    await this.connection.exchange(deadline, (session) =>
      Promise.all([
        ...nodes.folders.map((path) => session.create(path)),
        // Last: where this node exists, all others do.
        session.create(nodes.meta, metaBytes(info)),
      ]),
    );
  }

  /** The folders of a worker ID that may be missing. */
  foldersFor(nodes: Nodes, workerId: number): readonly string[] {
    return nodes.bucket(bucketOf(workerId)).filter((path) => !this.#folders.has(path));
  }

  noteFolders(nodes: Nodes, workerId: number): void {
    for (const path of nodes.bucket(bucketOf(workerId))) this.#folders.add(path);
  }

  async close(): Promise<void> {
    this.ephemerals.close();
    await this.connection.close();
  }

  async #makeBase(deadline: number): Promise<void> {
    const [made] = await this.connection.exchange(deadline, (session) =>
      Promise.all([session.create(this.#base), session.create(clockOf(this.#base))]),
    );
    if (made !== "orphan") return;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `ZooKeeper ${this.connection.where} has no node \`${this.#chroot}\`, which the registry URL names: create it, or correct the URL.`,
    );
  }
}

export async function readNode(
  session: ZooKeeperSession,
  nodes: Nodes,
  workerId: number,
): Promise<StoredNode | undefined> {
  const path = nodes.state(workerId);
  const node = await session.get(path);
  return node && readRecord(node, path, workerId);
}

/** The writes that put a record in the place of `before`, which has to be unchanged. */
export function put(
  nodes: Nodes,
  stored: Stored,
  before: StoredNode | undefined,
  sticky: boolean = before?.sticky ?? false,
): Write[] {
  const [path, data] = [nodes.state(stored.workerId), recordBytes(stored, sticky)];
  if (before !== undefined) return [{ op: "set", path, data, version: before.version }];
  return [
    { op: "create", path, data, contested: true },
    // Created with the record: where only this node exists, an operator deleted the record by hand.
    { op: "create", path: nodes.rows(stored.workerId), contested: true },
  ];
}

/**
 * The write that goes with each change of a record without a claim. Only such records are deleted, so a version of one may come again.
 * `bands`: the node as it was read.
 */
export function guardUnused(nodes: Nodes, { record }: StoredNode, bands: Node | undefined): Write[] {
  return record.fence > 0 ? [] : [{ op: "set", path: nodes.bands, data: numberBytes(0), version: bands?.version ?? 0 }];
}

/**
 * Creates a record where an operator deleted one by hand: its number rests as long as any window of it may be open, and the fence is
 * above all earlier ones. Changes nothing where a record exists by now.
 */
export async function replaceLost(
  { connection }: ZooKeeperStore,
  deadline: number,
  nodes: Nodes,
  workerId: number,
  { info: { maxWindow, maxClockSkew }, clock }: NamespaceState,
): Promise<void> {
  const rows = await connection.exchange(deadline, (session) => session.list(nodes.rows(workerId)));
  const fences = (rows ?? []).map((name) => numberOf(name) ?? 0);
  const until = clock + maxWindow + maxClockSkew;
  const lost: Stored = {
    ...unusedRecord(workerId),
    // The last claim may have no row yet.
    fence: Math.max(0, ...fences) + 1,
    from: until,
    until,
    knownFrom: until,
  };
  await connection.exchange(deadline, (session) => session.create(nodes.state(workerId), recordBytes(lost, false)));
}

/** The write that removes the record's token from the index. */
export function forgetToken(nodes: Nodes, before: StoredNode | undefined): Write[] {
  const token = before?.record.token;
  return token === undefined ? [] : [{ op: "remove", path: nodes.token(token) }];
}

/** The write that removes a worker ID from those that are pinned for an address, unless it stays pinned for that (`next`). */
export function forgetOwner(nodes: Nodes, { record: { workerId, owner } }: StoredNode, next?: string): Write[] {
  return owner === undefined || owner === next ? [] : [{ op: "remove", path: nodes.ofOwner(owner, workerId) }];
}
