import { SnowleaseError } from "../../id/errors.ts";
import { defaultLimits, type NamespaceInfo, type NamespaceLimits } from "../../rule/registry.ts";
import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import type { Connection } from "./connection.ts";
import { OwnLives } from "./ephemeral.ts";
import { baseOf, bucketOf, clockOf, type Nodes, nodesOf, numberOf } from "./nodes.ts";
import { type Kept, metaBytes, numberBytes, readMeta, readRecord, recordBytes } from "./records.ts";
import type { Node, Session, Write } from "./session.ts";
import { type again, type Moment, operate } from "./commit.ts";

/** What an operation begins with. */
export interface Begun<Read> {
  /** The leader's. */
  readonly clock: number;
  readonly info: NamespaceInfo | undefined;
  readonly read: Read;
  readonly session: number;
}

/** The nodes of a registry, and what this client knows of them. */
export class Store {
  readonly connection: Connection;
  readonly lives: OwnLives;
  readonly #chroot: string;
  readonly #base: string;
  readonly #operationTimeout: number;
  /** Folders of buckets that were made or found there: nobody ever deletes one. */
  readonly #folders = new Set<string>();

  constructor(connection: Connection, chroot: string, operationTimeout: number) {
    this.connection = connection;
    this.lives = new OwnLives(connection);
    this.#chroot = chroot;
    this.#base = baseOf(chroot);
    this.#operationTimeout = operationTimeout;
  }

  nodes(namespace: string): Nodes {
    return nodesOf(this.#base, namespace);
  }

  /** Takes a step until it is done, as `operate` does. */
  run<Answer>(step: (moment: Moment) => Promise<Answer | typeof again>): Promise<Answer> {
    return operate(this.connection, this.#operationTimeout, step);
  }

  /**
   * One round trip: writes to the node of the clock, and reads behind that, so that what is read is not older. Makes that node
   * where it is missing.
   */
  async begin<Read>(deadline: number, nodes: Nodes, reads: (session: Session) => Promise<Read>): Promise<Begun<Read>> {
    const [clock, meta, read, session] = await this.connection.exchange(deadline, async (session) => [
      ...(await Promise.all([session.touch(clockOf(this.#base)), session.get(nodes.meta), reads(session)])),
      session.id,
    ]);
    if (clock !== undefined) return { clock, info: meta && readMeta(meta, nodes.meta), read, session };
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
        // Last: where it is, all others are.
        session.create(nodes.meta, metaBytes(info)),
      ]),
    );
  }

  /** The folders that a worker ID needs and that are not known to be there. */
  foldersFor(nodes: Nodes, workerId: number): readonly string[] {
    return nodes.bucket(bucketOf(workerId)).filter((path) => !this.#folders.has(path));
  }

  noteFolders(nodes: Nodes, workerId: number): void {
    for (const path of nodes.bucket(bucketOf(workerId))) this.#folders.add(path);
  }

  async close(): Promise<void> {
    this.lives.close();
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

/** A namespace that is not there yet. */
export function newNamespace(layout: string, limits: Partial<NamespaceLimits> = {}): NamespaceInfo {
  const { maxWindow = defaultLimits.maxWindow, maxClockSkew = defaultLimits.maxClockSkew } = limits;
  return { layout, maxWindow, maxClockSkew };
}

export async function readKept(session: Session, nodes: Nodes, workerId: number): Promise<Kept | undefined> {
  const path = nodes.state(workerId);
  const node = await session.get(path);
  return node && readRecord(node, path, workerId);
}

/** The writes that put a record where `kept` was read, on the condition that it still stands there. */
export function put(
  nodes: Nodes,
  stored: Stored,
  kept: Kept | undefined,
  sticky: boolean = kept?.sticky ?? false,
): Write[] {
  const [path, data] = [nodes.state(stored.workerId), recordBytes(stored, sticky)];
  if (kept !== undefined) return [{ op: "set", path, data, version: kept.version }];
  return [
    { op: "create", path, data, contested: true },
    // Made with the record: where only this is there, somebody deleted the record by hand.
    { op: "create", path: nodes.rows(stored.workerId), contested: true },
  ];
}

/**
 * The write that goes with each change of a record that nobody has claimed yet: these alone are ever deleted, so that a version
 * of one may come again. `bands`: what was read there.
 */
export function guardUnused(nodes: Nodes, { stored }: Kept, bands: Node | undefined): Write[] {
  return stored.fence > 0 ? [] : [{ op: "set", path: nodes.bands, data: numberBytes(0), version: bands?.version ?? 0 }];
}

/**
 * Puts a record where somebody deleted one by hand, so that its number rests as long as anybody's window may still be open, under
 * a fence that none of them had. Beaten, it does nothing.
 */
export async function replaceLost(
  { connection }: Store,
  deadline: number,
  nodes: Nodes,
  workerId: number,
  { maxWindow, maxClockSkew }: NamespaceInfo,
  clock: number,
): Promise<void> {
  const rows = await connection.exchange(deadline, (session) => session.list(nodes.rows(workerId)));
  const fences = (rows ?? []).map((name) => numberOf(name) ?? 0);
  const until = clock + maxWindow + maxClockSkew;
  const lost: Stored = {
    ...unusedRecord(workerId),
    // The last claim had no row yet.
    fence: Math.max(0, ...fences) + 1,
    from: until,
    until,
    knownFrom: until,
  };
  await connection.exchange(deadline, (session) => session.create(nodes.state(workerId), recordBytes(lost, false)));
}

/** The write that takes a token out of the index, where the record has one. */
export function forgetToken(nodes: Nodes, kept: Kept | undefined): Write[] {
  const token = kept?.stored.token;
  return token === undefined ? [] : [{ op: "remove", path: nodes.token(token) }];
}
