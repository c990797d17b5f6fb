import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import { Beaten, Changed } from "../compare-and-set/store.ts";
import type { ZooKeeperConnection } from "./connection.ts";
import type { ZooKeeperSession, Write } from "./session.ts";
import { codes, ConnectionLost, silentError } from "./errors.ts";

/** Another writer was faster: the first write that did not find what it expected. */
export class BeatenAt extends Beaten {
  readonly path: string | undefined;

  constructor(path: string | undefined) {
    super("other writers were faster");
    this.path = path;
  }
}

/** The circumstances of one attempt. */
export interface ZooKeeperTry {
  readonly deadline: number;
  /** How long the operation has waited so far, for a connection and in attempts that failed, whole ms. */
  readonly waited: number;
  /** How often other writers were faster. */
  readonly races: number;
}

/** Longest pause between two attempts where other writers are faster, ms. */
const longestPause = 40;
/** How often one commit creates missing folders, or leaves a settled write out, before the operation reads again. */
const mostRepairs = 6;

/**
 * Makes attempts until one is done: each reads, decides, and writes under the condition that nothing has changed since. An attempt may
 * follow one with an unknown answer: it sees whether that was done.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE at the deadline.
 */
export async function operate<Answer>(
  connection: ZooKeeperConnection,
  work: (tried: ZooKeeperTry) => Promise<Answer>,
  clock: Clock = systemClock,
): Promise<Answer> {
  const { where, operationTimeout } = connection;
  const begun = monotonic(clock);
  const deadline = connection.deadline();
  let lost: ConnectionLost | undefined;
  let races = 0;
  for (let late = false; ;) {
    try {
      late = (await connection.ready(deadline)) || late;
      return await work({ deadline, waited: late ? Math.floor(monotonic(clock) - begun) : 0, races });
    } catch (error) {
      if (error instanceof Beaten) {
        races++;
        late = true;
      } else if (error instanceof ConnectionLost) {
        lost = error;
        late = true;
      } else if (lost !== undefined && isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) {
        throw silentError(where, operationTimeout, true, lost);
      } else if (!(error instanceof Changed)) throw error;
    }
    if (monotonic(clock) >= deadline) {
      if (lost !== undefined) throw silentError(where, operationTimeout, true, lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Other writers were faster ${races} times within ${operationTimeout} ms at ZooKeeper ${where}, nothing was changed; try again.`,
      );
    }
    if (races > 2) await clock.sleep(Math.random() * Math.min(5 * races, longestPause));
  }
}

/** What goes with a transaction, in one round trip. */
export interface CommitExtras {
  /** Nodes that are created first where they are missing, parents before children. */
  readonly folders?: readonly string[] | undefined;
  /** Calls that are sent with it. The operation does not depend on them. */
  readonly also?: ((session: ZooKeeperSession) => readonly Promise<unknown>[]) | undefined;
}

/**
 * Commits writes, all or none. Missing folders are created; a write is left out where its node exists, or is gone, already.
 * @returns the number of the session that wrote. @throws BeatenAt
 */
export async function commit(
  connection: ZooKeeperConnection,
  deadline: number,
  writes: readonly Write[],
  { folders = [], also }: CommitExtras = {},
): Promise<number> {
  const settled = new Set<Write>();
  const missing = [...folders];
  for (let repairs = 0; repairs < mostRepairs; repairs++) {
    const left = writes.filter((write) => !settled.has(write));
    const { id, failure } = await connection.exchange(deadline, async (session) => {
      const made = missing.map((path) => session.create(path));
      const committed = session.commit(left);
      const [failure] = await Promise.all([committed, ...made, ...(also?.(session) ?? [])]);
      return { id: session.id, failure };
    });
    if (failure === undefined) return id;
    const write = left[failure.failed];
    if (write === undefined || write.op === "set" || failure.code === codes.badVersion) throw new BeatenAt(write?.path);
    if (write.op === "create" && failure.code === codes.noNode) missing.push(parentOf(write.path));
    else if (write.op === "create" && write.contested) throw new BeatenAt(write.path);
    else settled.add(write);
  }
  throw new BeatenAt(undefined);
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
