import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { Done } from "./transaction.ts";

/*
 * An ephemeral node says that the session of a holder lives. Without it a claim may end early; a window never does. Of several below one
 * record, the right ones have the token of the record. A client removes one whose window has passed: a daemon's session outlives the
 * holders that it claims for.
 */

/** How long after a failure a client tries once more to remove a node, ms. */
const retryPause = 5000;
/** Longest delay that a timer honours, ms. */
const longestTimer = 2_147_483_647;

/** An ephemeral node that this client made. */
interface OwnNode {
  readonly path: string;
  /** Removes it. */
  readonly end: NodeJS.Timeout;
  /** Whether it is known to be there. */
  readonly there: boolean;
}

/** The ephemeral nodes that this client made, and that its session keeps. */
export class OwnEphemerals {
  readonly #connection: ZooKeeperConnection;
  /** By the beginnings of their paths. */
  readonly #nodes = new Map<string, OwnNode>();
  #session = 0;
  #closed = false;

  constructor(connection: ZooKeeperConnection) {
    this.#connection = connection;
  }

  /** The path of the node that this session has at the beginning of a path; undefined where it is not known to have one. */
  at(session: number, begin: string): string | undefined {
    const node = this.#nodes.get(begin);
    return session === this.#session && node?.there === true ? node.path : undefined;
  }

  /** Notes the node of a claim that was stored with this `until`. `clock`: the registry's, at that time. */
  note({ session, ephemeral }: Done, begin: string, { until }: Stored, clock: number): void {
    if (this.#session !== session) this.#clear();
    this.#session = session;
    // Where its time came in between, the next renewal creates it again.
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
      // Unless a renewal created another one in between.
      if (!this.#nodes.has(begin)) this.#keep(begin, path, { ms: retryPause, there: false });
    }
  }

  #clear(): void {
    for (const begin of this.#nodes.keys()) this.forget(begin);
  }
}
