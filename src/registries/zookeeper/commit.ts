import { type Clock, monotonic, systemClock } from "../../lease/clock.ts";
import { isSnowleaseError, SnowleaseError } from "../../id/errors.ts";
import type { Connection } from "./connection.ts";
import type { Session, Write } from "./session.ts";
import { codes, ConnectionLost, silentError } from "./errors.ts";

/** What a step answers when somebody else was faster: it is taken again, from what then stands there. */
export const again: unique symbol = Symbol("again");

/** When a step is taken. */
export interface Moment {
  readonly deadline: number;
  /** How long the operation has waited until now, for a connection and in vain, whole ms. */
  readonly waited: number;
  /** How often somebody else was faster. */
  readonly beaten: number;
}

/** Between two tries of an operation that others are faster than, ms. */
const longestPause = 40;
/** How often missing folders are made, or what is there already is left out, before it all is read again. */
const mostRepairs = 6;

/**
 * Takes a step until it is done: each reads, decides, and writes under the condition that nothing has changed since. So it may be
 * taken again whatever became of the one before, also where its answer was lost: if it was done, the next one sees it.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE when that took too long.
 */
export async function operate<Answer>(
  connection: Connection,
  operationTimeout: number,
  step: (moment: Moment) => Promise<Answer | typeof again>,
  clock: Clock = systemClock,
): Promise<Answer> {
  const begun = monotonic(clock);
  const deadline = connection.deadline();
  let lost: ConnectionLost | undefined;
  for (let beaten = 0; ;) {
    try {
      const late = (await connection.ready(deadline)) || beaten > 0 || lost !== undefined;
      const waited = late ? Math.floor(monotonic(clock) - begun) : 0;
      const answer = await step({ deadline, waited, beaten });
      if (answer !== again) return answer;
      beaten++;
    } catch (error) {
      if (error instanceof ConnectionLost) lost = error;
      else if (lost === undefined || !isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) throw error;
      else throw silentError(connection.where, operationTimeout, true, lost);
    }
    if (monotonic(clock) >= deadline) {
      if (lost !== undefined) throw silentError(connection.where, operationTimeout, true, lost);
      throw new SnowleaseError(
        "REGISTRY_UNAVAILABLE",
        `Others were faster ${beaten} times within ${operationTimeout} ms at ZooKeeper ${connection.where}, nothing was changed; try again.`,
      );
    }
    if (beaten > 2) await clock.sleep(Math.random() * Math.min(5 * beaten, longestPause));
  }
}

/** What goes with a transaction, in one round trip. */
interface Beside {
  /** Nodes that are made first where they are missing, the upper ones first. */
  readonly folders?: readonly string[] | undefined;
  /** Sent with it; it must not matter whether that is done. */
  readonly also?: ((session: Session) => readonly Promise<unknown>[]) | undefined;
}

/** What became of writes: the number of the session that did them, or the one that did not find what it expected. */
type Commit = { readonly session: number } | { readonly session?: never; readonly beaten: Write | undefined };

/** Commits writes, all or none. Folders that are missing are made; what is there already, or gone already, is left out. */
export async function commit(
  connection: Connection,
  deadline: number,
  writes: readonly Write[],
  { folders = [], also }: Beside = {},
): Promise<Commit> {
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
    if (failure === undefined) return { session: id };
    const write = left[failure.failed];
    if (write === undefined || write.op === "set" || failure.code === codes.badVersion) return { beaten: write };
    if (write.op === "create" && failure.code === codes.noNode) missing.push(parentOf(write.path));
    else if (write.op === "create" && write.contested) return { beaten: write };
    else settled.add(write);
  }
  return { beaten: undefined };
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
