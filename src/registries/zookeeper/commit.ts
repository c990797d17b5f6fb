import { posix } from "node:path";
import { Beaten } from "../engine/operate.ts";
import { codes } from "./errors.ts";
import type { Exchange, Write, ZooKeeperSession } from "./session.ts";

/** Another writer was faster: the first write that did not find what it expected. */
export class BeatenAt extends Beaten {
  readonly path: string | undefined;

  constructor(path: string | undefined) {
    super("other writers were faster");
    this.path = path;
  }
}

/** How often one commit creates missing folders, or leaves a settled write out, before the operation reads again. */
const mostRepairs = 6;

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
  exchange: Exchange,
  writes: readonly Write[],
  { folders = [], also }: CommitExtras = {},
): Promise<number> {
  const settled = new Set<Write>();
  const missing = [...folders];
  for (let repairs = 0; repairs < mostRepairs; repairs++) {
    const left = writes.filter((write) => !settled.has(write));
    const { id, failure } = await exchange(async (session) => {
      const made = missing.map((path) => session.create(path));
      const committed = session.commit(left);
      const [failure] = await Promise.all([committed, ...made, ...(also?.(session) ?? [])]);
      return { id: session.id, failure };
    });
    if (failure === undefined) return id;
    const write = left[failure.failed];
    const expects = write?.op === "set" || write?.op === "check" || failure.code === codes.badVersion;
    if (write === undefined || expects) throw new BeatenAt(write?.path);
    if (write.op === "create" && failure.code === codes.noNode) missing.push(posix.dirname(write.path));
    else if (write.op === "create" && write.contested) throw new BeatenAt(write.path);
    else settled.add(write);
  }
  throw new BeatenAt(undefined);
}
