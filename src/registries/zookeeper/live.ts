import type { Stored } from "../../core/window.ts";
import type { Connection } from "./connection.ts";
import { bucketOf, type Nodes, parseLive } from "./nodes.ts";
import type { Session } from "./session.ts";

/*
 * An ephemeral node says that the session of a holder lives. It is a hint that frees its claim early, and never shortens a window:
 * of two for one worker ID the one is right whose token the record holds, and whoever made the other one takes it away.
 */

/** Names of the ephemeral nodes of one worker ID, each with the token that it bears. */
export async function livesOf(session: Session, nodes: Nodes, workerId: number): Promise<ReadonlyMap<string, string>> {
  const names = (await session.list(nodes.lives(bucketOf(workerId)))) ?? [];
  return new Map(
    names.flatMap((name) => {
      const found = parseLive(name);
      return found?.workerId === workerId ? [[name, found.token]] : [];
    }),
  );
}

/** Where the ephemeral nodes of a claim lie: more than one where its holder has had more than one session. */
export function livePaths(nodes: Nodes, workerId: number, lives: ReadonlyMap<string, string>, token: string): string[] {
  return [...lives].flatMap(([name, of]) => (of === token ? [`${nodes.lives(bucketOf(workerId))}/${name}`] : []));
}

/** A record as it is shown: with the claim ended where the session of its holder has. `tokens`: those whose sessions live. */
export function seen(stored: Stored, tokens: Iterable<string>): Stored {
  const { token } = stored;
  return token === undefined || [...tokens].includes(token) ? stored : { ...stored, token: undefined };
}

/** The ephemeral nodes that this client has made and that its session still keeps, by the beginnings of their names. */
export class OwnLives {
  readonly #made = new Set<string>();
  #session = 0;

  note(session: number, path: string): void {
    if (this.#session !== session) this.#made.clear();
    this.#session = session;
    this.#made.add(path);
  }

  has(session: number, path: string): boolean {
    return this.#session === session && this.#made.has(path);
  }

  forget(path: string): void {
    this.#made.delete(path);
  }

  /** Takes away what says that a claim is alive which is over. Where that fails, a free number is overlooked until the session ends. */
  async remove(connection: Connection, deadline: number, nodes: Nodes, workerId: number, token: string): Promise<void> {
    this.forget(nodes.live(workerId, token));
    await connection
      .exchange(deadline, async (session) => {
        const lives = await livesOf(session, nodes, workerId);
        await Promise.all(livePaths(nodes, workerId, lives, token).map((path) => session.remove(path)));
      })
      .catch(() => undefined);
  }
}
