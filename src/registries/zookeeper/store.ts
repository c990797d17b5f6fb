import { configInvalid } from "../../id/errors.ts";
import { systemClock } from "../../clock.ts";
import type { NewNamespace } from "../../rule/new-namespace.ts";
import type { UnknownNamespace } from "../../rule/unknown-namespace.ts";
import { operate, type Try } from "../engine/operate.ts";
import type { StoredNamespace } from "../compare-and-set/store.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import { ConnectionLost, ReadLost, silentError } from "./errors.ts";
import { OwnEphemerals } from "./ephemeral.ts";
import { Nodes } from "./nodes.ts";
import { eraBytes, type StoredNode, metaBytes, readEra, readMeta, readRecord } from "./records.ts";
import type { Exchange, Node, Write, ZooKeeperSession } from "./session.ts";

/** One attempt, and how it makes calls. */
export interface ZooKeeperTry extends Try {
  readonly exchange: Exchange;
}

/** What an operation reads first. */
export interface Beginning<Read> {
  /** The leader's clock, Unix ms. */
  readonly clock: number;
  /** Undefined where the namespace does not exist. */
  readonly state: StoredNamespace | undefined;
  /** Where it does not exist. */
  readonly unknown: UnknownNamespace | undefined;
  /** The nodes of what is fixed for the namespace, and of the era. */
  readonly meta: Node | undefined;
  readonly era: Node | undefined;
  readonly read: Read;
  readonly session: number;
}

/** The nodes of a registry, and what this client remembers of them. */
export class ZooKeeperStore {
  readonly connection: ZooKeeperConnection;
  readonly ephemerals: OwnEphemerals;
  readonly #chroot: string;
  /** The node above all namespaces. */
  readonly #base: string;
  /** The node that each operation writes for the clock. */
  readonly #clock: string;
  /** Folders of buckets that exist. Where another client removed the namespace, `commit` makes them again. */
  readonly #folders = new Set<string>();

  constructor(connection: ZooKeeperConnection, chroot: string) {
    this.connection = connection;
    this.ephemerals = new OwnEphemerals(connection);
    this.#chroot = chroot;
    this.#base = `${chroot}/snowlease`;
    this.#clock = `${this.#base}/.clock`;
  }

  nodes(namespace: string): Nodes {
    return new Nodes(this.#base, namespace);
  }

  /** Makes attempts until one is done. `repeatable`: as of `operate`. */
  run<Answer>(
    work: (tried: ZooKeeperTry) => Promise<Answer>,
    { repeatable }: { readonly repeatable: boolean } = { repeatable: true },
  ): Promise<Answer> {
    const { connection } = this;
    const { where, operationTimeout } = connection;
    const operated = {
      title: `ZooKeeper ${where}`,
      clock: systemClock,
      operationTimeout,
      ready: connection.ready,
      silent: (cause: Error) => silentError(where, operationTimeout, true, cause),
    };
    return operate(operated, { repeatable }, (tried) =>
      work({ ...tried, exchange: connection.exchanges(tried.deadline) }),
    );
  }

  /** An operation of one round trip. */
  ask<Answer>(calls: (session: ZooKeeperSession) => Promise<Answer>): Promise<Answer> {
    return this.run(({ exchange }) => exchange(calls));
  }

  /** An operation that only reads. */
  read<Read>(nodes: Nodes, reads: (session: ZooKeeperSession) => Promise<Read>): Promise<Beginning<Read>> {
    return this.run(({ exchange }) => this.begin(exchange, nodes, reads));
  }

  /**
   * One round trip: writes the node of the clock, and reads behind that write, so that no read is older. Creates that node where it is
   * missing.
   */
  async begin<Read>(
    exchange: Exchange,
    nodes: Nodes,
    reads: (session: ZooKeeperSession) => Promise<Read>,
  ): Promise<Beginning<Read>> {
    const reading = exchange(async (session) => ({
      found: await Promise.all([
        session.touch(this.#clock),
        session.get(nodes.meta),
        session.get(nodes.era),
        reads(session),
      ]),
      session: session.id,
    }));
    const { found, session } = await reading.catch((error: unknown) => {
      // That the clock was written changes nothing.
      throw error instanceof ConnectionLost ? new ReadLost(error.message, { cause: error }) : error;
    });
    const [clock, meta, era, read] = found;
    if (clock !== undefined) {
      const state = meta && { ...readMeta(meta, nodes.meta), ...readEra(era, nodes.era), clock };
      const unknown = meta ? undefined : { clock, noted: era && readEra(era, nodes.era) };
      return { clock, state, unknown, meta, era, read, session };
    }
    await this.#makeClock(exchange);
    return this.begin(exchange, nodes, reads);
  }

  /** The clock alone. */
  async now(exchange: Exchange): Promise<number> {
    return (await exchange((session) => session.touch(this.#clock))) ?? this.#makeClock(exchange);
  }

  async makeNamespace(exchange: Exchange, nodes: Nodes, made: NewNamespace): Promise<void> {
    const others = [...nodes.folders, nodes.era].map((path): Write => ({ op: "check", path }));
    const meta: Write = { op: "create", path: nodes.meta, data: metaBytes(made), contested: true };
    await exchange((session) =>
      Promise.all([
        ...nodes.folders.map((path) => session.create(path)),
        session.create(nodes.era, eraBytes(made.era)),
        // Where this node exists, all others do: a removal may have come in between.
        session.commit([...others, meta]),
      ]),
    );
  }

  /** The buckets of a worker ID that may be missing. */
  foldersFor(nodes: Nodes, workerId: number): readonly string[] {
    return nodes.bucketsOf(workerId).filter((path) => !this.#folders.has(path));
  }

  noteFolders(nodes: Nodes, workerId: number): void {
    for (const path of nodes.bucketsOf(workerId)) this.#folders.add(path);
  }

  /** Forgets the folders of a namespace that is removed. */
  forgetFolders({ root }: Nodes): void {
    for (const path of this.#folders) if (path.startsWith(`${root}/`)) this.#folders.delete(path);
  }

  async close(): Promise<void> {
    this.ephemerals.close();
    await this.connection.close();
  }

  /** Creates the node of the clock. Returns what the clock shows. */
  async #makeClock(exchange: Exchange): Promise<number> {
    const [, , clock] = await exchange((session) =>
      Promise.all([session.create(this.#base), session.create(this.#clock), session.touch(this.#clock)]),
    );
    if (clock !== undefined) return clock;
    throw configInvalid(
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
