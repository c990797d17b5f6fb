import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { Done } from "./transaction.ts";

/*
 * An ephemeral node shows that the session of a holder lives. Without this node, a claim may end early, but a window never does. If a
 * record has several, the right ones have the token of the record. A client removes a node whose window has passed, because the session of
 * a daemon outlives the holders that it claims for.
 */

/** How long after a failure a client tries again to remove a node, ms. */
const retryPause = 5000;
/** The longest delay that a timer supports, ms. */
const longestTimer = 2_147_483_647;

/** An ephemeral node that this client made. */
interface OwnNode {
  readonly path: string;
  /** The timer that removes the node. */
  readonly end: NodeJS.Timeout;
  /** Whether this client knows that the node exists. */
  readonly there: boolean;
}

/** The ephemeral nodes that this client made, and that its session keeps. */
export class OwnEphemerals {
  readonly #connection: ZooKeeperConnection;
  /** By the beginning of the path. */
  readonly #nodes = new Map<string, OwnNode>();
  #session = 0;
  #closed = false;

  constructor(connection: ZooKeeperConnection) {
    this.#connection = connection;
  }

  /** The path of the node that this session has at the beginning of a path; undefined if this client does not know of one. */
  at(session: number, begin: string): string | undefined {
    const node = this.#nodes.get(begin);
    return session === this.#session && node?.there === true ? node.path : undefined;
  }

  /** Notes the node of a claim that was stored with this `until`. `clock`: the registry's clock at that time. */
  note({ session, ephemeral }: Done, begin: string, { until }: Stored, clock: number): void {
    if (this.#session !== session) this.#clear();
    this.#session = session;
    // If this client has removed the node meanwhile, the next renewal creates it again.
    const path = ephemeral ?? this.at(session, begin);
    if (path !== undefined) this.#keep(begin, path, { ms: until - clock, there: true });
  }

  /** Forgets a node that was removed. */
  forget(begin: string): void {
    clearTimeout(this.#nodes.get(begin)?.end);
    this.#nodes.delete(begin);
  }

  close(): void {
    this.#closed = true;
    this.#clear();
  }

  #keep(begin: string, path: string, { ms, there }: { readonly ms: number; readonly there: boolean }): void {
    this.forget(begin);
    if (this.#closed) return;
    const end = setTimeout(() => void this.#remove(begin, path), Math.min(ms, longestTimer));
    this.#nodes.set(begin, { path, end: end.unref(), there });
  }

  async #remove(begin: string, path: string): Promise<void> {
    this.forget(begin);
    try {
      const exchange = await this.#connection.exchanges(this.#connection.deadline());
      await exchange((session) => session.remove(path));
    } catch {
      // Tries again, unless a renewal has created another node meanwhile.
      if (!this.#nodes.has(begin)) this.#keep(begin, path, { ms: retryPause, there: false });
    }
  }

  #clear(): void {
    for (const begin of this.#nodes.keys()) this.forget(begin);
  }
}
