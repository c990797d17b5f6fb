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
  /** Nodes that are created first, parents before children. */
  readonly folders?: readonly string[] | undefined;
  /** Calls that are sent with it. The operation does not depend on them. */
  readonly also?: ((session: ZooKeeperSession) => readonly Promise<unknown>[]) | undefined;
}

/** Who wrote, and what. */
export interface Done {
  /** The number of the session. */
  readonly session: number;
  /** The path of the ephemeral node that was created. */
  readonly ephemeral: string | undefined;
}

/**
 * Commits writes, all or none. Missing parents are created, below `root`; a write is left out where its node exists, or is gone, already.
 * @throws BeatenAt
 */
export async function commit(
  exchange: Exchange,
  root: string,
  writes: readonly Write[],
  { folders = [], also }: CommitExtras = {},
): Promise<Done> {
  const settled = new Set<Write>();
  const missing = [...folders];
  for (let repairs = 0; repairs < mostRepairs; repairs++) {
    const left = writes.filter((write) => !settled.has(write));
    const { session, done } = await exchange(async (calls) => {
      const made = missing.map((path) => calls.create(path));
      const committed = calls.commit(left);
      const [done] = await Promise.all([committed, ...made, ...(also?.(calls) ?? [])]);
      return { session: calls.id, done };
    });
    if (done.failed === undefined) {
      const place = left.findIndex((each) => each.op === "create" && each.ephemeral === true);
      return { session, ephemeral: done.made[place] };
    }
    const write = left[done.failed];
    const expects = write?.op === "set" || write?.op === "check" || done.code === codes.badVersion;
    if (write === undefined || expects) throw new BeatenAt(write?.path);
    if (write.op === "create" && done.code === codes.noNode) missing.push(...parentsOf(left, root));
    else if (write.op === "create" && write.contested) throw new BeatenAt(write.path);
    else settled.add(write);
  }
  throw new BeatenAt(undefined);
}

/** The folders of what these writes create, from `root` on, parents before children. Those of ephemeral nodes are records. */
export function parentsOf(writes: readonly Write[], root: string): readonly string[] {
  const found = new Set([root]);
  const add = (path: string): void => {
    if (path.length <= root.length) return;
    add(posix.dirname(path));
    found.add(path);
  };
  for (const write of writes) if (write.op === "create" && write.ephemeral !== true) add(posix.dirname(write.path));
  return [...found];
}
