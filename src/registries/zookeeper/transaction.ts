import { posix } from "node:path";
import { Beaten } from "../engine/operate.ts";
import { codes, foreignNode } from "./errors.ts";
import type { Nodes } from "./nodes.ts";
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

/** What one transaction writes. */
export interface Multi {
  /** What proves what stands under the name, or changes it. */
  readonly stand: readonly Write[];
  readonly writes: readonly Write[];
  /** Folders that are created first, besides those of the writes. */
  readonly folders?: readonly string[] | undefined;
  /** Whether a folder is known to be missing: then it is created first. */
  readonly isMissing?: ((folder: string) => boolean) | undefined;
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
 * Commits writes, all or none. Missing parents are created; a write is left out where its node exists, or is gone, already.
 * @throws BeatenAt; SnowleaseError SCHEMA_INCOMPATIBLE where somebody else's node is below one that is removed.
 */
export async function commit(
  exchange: Exchange,
  nodes: Nodes,
  { stand, writes, folders: others = [], isMissing = () => false, also }: Multi,
): Promise<Done> {
  const all = [...stand, ...writes];
  const settled = new Set<Write>();
  // A folder is created only where what stands was seen to stand; the first one, where nothing stood.
  const expected = stand.filter(({ op }) => op === "check");
  const folders = foldersOf(nodes, all).filter((path) => path !== nodes.root || expected.length === 0);
  let missing: readonly string[] = [...folders.filter(isMissing), ...others];
  const parents: Write[] = [];
  for (let repairs = 0; repairs < mostRepairs; repairs++) {
    const left = [...stand, ...[...parents, ...writes].filter((write) => !settled.has(write))];
    const { session, done } = await exchange(async (calls) => {
      const folded = missing.map((path) => calls.commit([...expected, { op: "create", path }]));
      const committed = calls.commit(left);
      const [made] = await Promise.all([
        Promise.allSettled(folded),
        Promise.allSettled([committed, ...(also?.(calls) ?? [])]),
      ]);
      const done = await committed;
      const refused = made.find(({ status }) => status === "rejected");
      // One that exists is refused as well, to a user who may not make it. Then all others are made.
      if (done.code === codes.noNode && missing === folders && refused?.status === "rejected") throw refused.reason;
      return { session: calls.id, done };
    });
    if (done.failed === undefined) {
      const place = left.findIndex((each) => each.op === "create" && each.ephemeral === true);
      return { session, ephemeral: done.made[place] };
    }
    const write = left[done.failed];
    const parent = posix.dirname(write?.path ?? "");
    const expects = write?.op === "set" || write?.op === "check" || done.code === codes.badVersion;
    const stands = write !== undefined && stand.includes(write) && parent !== nodes.root;
    if (write === undefined || expects || stands) throw new BeatenAt(write?.path);
    if (done.code === codes.notEmpty) throw foreignNode(write.path, "other nodes below it");
    if (write.op === "create" && write.ephemeral !== true && done.code === codes.noNode) {
      // What is no folder is created together with what lies below it, or not at all.
      if (!folders.includes(parent)) parents.push({ op: "create", path: parent });
      missing = folders;
    } else if (write.op === "create" && write.contested) throw new BeatenAt(write.path);
    else settled.add(write);
  }
  throw new BeatenAt(undefined);
}

/** The folders of what these writes create, parents before children. Of other nodes, only their own writes are made. */
function foldersOf({ root, isFolder }: Nodes, writes: readonly Write[]): readonly string[] {
  const found = new Set<string>();
  const add = (path: string): void => {
    if (path.length > root.length) add(posix.dirname(path));
    if (isFolder(path)) found.add(path);
  };
  for (const { op, path } of writes) if (op === "create") add(posix.dirname(path));
  return [...found];
}
