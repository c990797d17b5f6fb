import type { Stored } from "../../rule/window.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import { bucketOf, type Nodes, parseEphemeral } from "./nodes.ts";
import type { ZooKeeperSession } from "./session.ts";

/*
 * An ephemeral node says that the session of a holder lives. It is a hint that frees its claim early, and never shortens a window:
 * of two for one worker ID the one is right whose token the record holds, and whoever made the other one takes it away. So does
 * the one whose window has passed: a daemon's session outlives the holders that it claims for, and a number that anybody seems
 * to hold is not found.
 */

/** Before a node is taken away once more that could not be, ms. */
const retryPause = 5000;
/** Longest delay that a timer honours, ms. */
const longestTimer = 2_147_483_647;

/** Names of the ephemeral nodes of one worker ID, each with the token that it bears. */
export async function ephemeralsOf(
  session: ZooKeeperSession,
  nodes: Nodes,
  workerId: number,
): Promise<ReadonlyMap<string, string>> {
  const names = (await session.list(nodes.ephemerals(bucketOf(workerId)))) ?? [];
  return new Map(
    names.flatMap((name) => {
      const found = parseEphemeral(name);
      return found?.workerId === workerId ? [[name, found.token]] : [];
    }),
  );
}

/** Where the ephemeral nodes of a claim lie: more than one where its holder has had more than one session. */
export function ephemeralPaths(
  nodes: Nodes,
  workerId: number,
  lives: ReadonlyMap<string, string>,
  token: string,
): string[] {
  return [...lives].flatMap(([name, of]) => (of === token ? [`${nodes.ephemerals(bucketOf(workerId))}/${name}`] : []));
}

/** A record as it is shown: with the claim ended where the session of its holder has. `tokens`: those whose sessions live. */
export function asShown(stored: Stored, tokens: Iterable<string>): Stored {
  const { token } = stored;
  return token === undefined || [...tokens].includes(token) ? stored : { ...stored, token: undefined };
}

/** The ephemeral nodes that this client has made and that its session still keeps. */
export class OwnEphemerals {
  readonly #connection: ZooKeeperConnection;
  /** By the beginnings of their names: when they are to go, and whether they are known to be there. */
  readonly #nodes = new Map<string, { readonly end: NodeJS.Timeout; readonly there: boolean }>();
  #session = 0;
  #closed = false;

  constructor(connection: ZooKeeperConnection) {
    this.#connection = connection;
  }

  /** Notes the node of a claim whose record was stored at a time of the registry's clock. */
  note(session: number, nodes: Nodes, { workerId, token, until }: Stored, clock: number): void {
    if (token === undefined) return;
    if (this.#session !== session) this.#clear();
    this.#session = session;
    this.#keep(nodes, workerId, token, until - clock, true);
  }

  has(session: number, path: string): boolean {
    return this.#session === session && this.#nodes.get(path)?.there === true;
  }

  /** Forgets one that was taken away. */
  forget(path: string): void {
    clearTimeout(this.#nodes.get(path)?.end);
    this.#nodes.delete(path);
  }

  /** Takes away what says that a claim is alive which is over. Where that fails, a free number is overlooked for a while. */
  async remove(deadline: number, nodes: Nodes, workerId: number, token: string): Promise<void> {
    this.forget(nodes.ephemeral(workerId, token));
    try {
      await this.#connection.exchange(deadline, async (session) => {
        const lives = await ephemeralsOf(session, nodes, workerId);
        await Promise.all(ephemeralPaths(nodes, workerId, lives, token).map((path) => session.remove(path)));
      });
    } catch {
      // Unless it was made again meanwhile.
      if (!this.#nodes.has(nodes.ephemeral(workerId, token))) this.#keep(nodes, workerId, token, retryPause, false);
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
    const end = setTimeout(
      () => void this.remove(this.#connection.deadline(), nodes, workerId, token),
      Math.min(ms, longestTimer),
    ).unref();
    this.#nodes.set(path, { end, there });
  }

  #clear(): void {
    for (const path of this.#nodes.keys()) this.forget(path);
  }
}
