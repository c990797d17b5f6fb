import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import { bucketOf, type Nodes, parseEphemeral } from "./nodes.ts";
import type { Exchange, ZooKeeperSession } from "./session.ts";

/*
 * An ephemeral node says that the session of a holder lives. Without it a claim may end early; a window never does. Of two nodes for
 * one worker ID, the right one has the token of the record; the client that made the other one removes it. A client also removes a
 * node whose window has passed: a daemon's session outlives the holders that it claims for, and a claim skips numbers that seem held.
 */

/** How long after a failure a client tries once more to remove a node, ms. */
const retryPause = 5000;
/** Longest delay that a timer honours, ms. */
const longestTimer = 2_147_483_647;

/** The paths of the ephemeral nodes of one worker ID, by their tokens: several where a holder has had several sessions. */
export async function ephemeralsOf(
  session: ZooKeeperSession,
  nodes: Nodes,
  workerId: number,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const folder = nodes.ephemerals(bucketOf(workerId));
  const paths = new Map<string, string[]>();
  for (const name of (await session.list(folder)) ?? []) {
    const found = parseEphemeral(name);
    if (found?.workerId !== workerId) continue;
    paths.set(found.token, [...(paths.get(found.token) ?? []), `${folder}/${name}`]);
  }
  return paths;
}

/** A record as people see it: with the claim ended where its holder's session has ended. `tokens`: those of living sessions. */
export function asShown(stored: Stored, tokens: { has(token: string): boolean }): Stored {
  return stored.token === undefined || tokens.has(stored.token) ? stored : { ...stored, token: undefined };
}

/** The ephemeral nodes that this client made, and that its session keeps. */
export class OwnEphemerals {
  /** Each exchange is an operation of its own. */
  readonly #exchange: Exchange;
  /** By the beginnings of their names: the timer that removes a node, and whether it is known to exist. */
  readonly #nodes = new Map<string, { readonly end: NodeJS.Timeout; readonly there: boolean }>();
  #session = 0;
  #closed = false;

  constructor(connection: ZooKeeperConnection) {
    this.#exchange = (calls) => connection.exchanges(connection.deadline())(calls);
  }

  /** Notes the node of a claim. `clock`: the registry's, when the record was stored. */
  note(session: number, nodes: Nodes, { workerId, token, until }: Stored, clock: number): void {
    if (token === undefined) return;
    if (this.#session !== session) this.#clear();
    this.#session = session;
    this.#keep(nodes, workerId, token, until - clock, true);
  }

  has(session: number, path: string): boolean {
    return this.#session === session && this.#nodes.get(path)?.there === true;
  }

  /** Forgets a node that was removed. */
  forget(path: string): void {
    clearTimeout(this.#nodes.get(path)?.end);
    this.#nodes.delete(path);
  }

  /** Removes the ephemeral nodes of a claim that is over. Until that succeeds, claims overlook a free number. */
  async remove(nodes: Nodes, workerId: number, token: string, exchange: Exchange = this.#exchange): Promise<void> {
    const begin = nodes.ephemeral(workerId, token);
    this.forget(begin);
    try {
      await exchange(async (session) => {
        const paths = (await ephemeralsOf(session, nodes, workerId)).get(token) ?? [];
        await Promise.all(paths.map((path) => session.remove(path)));
      });
    } catch {
      // Unless a renewal created it again in between.
      if (!this.#nodes.has(begin)) this.#keep(nodes, workerId, token, retryPause, false);
    }
  }

  close(): void {
    this.#closed = true;
    this.#clear();
  }

  #keep(nodes: Nodes, workerId: number, token: string, ms: number, there: boolean): void {
    const path = nodes.ephemeral(workerId, token);
    this.forget(path);
    if (this.#closed) return;
    const end = setTimeout(() => void this.remove(nodes, workerId, token), Math.min(ms, longestTimer));
    this.#nodes.set(path, { end: end.unref(), there });
  }

  #clear(): void {
    for (const path of this.#nodes.keys()) this.forget(path);
  }
}
