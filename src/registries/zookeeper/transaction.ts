import { posix } from "node:path";
import { Beaten } from "../engine/operate.ts";
import { codes, foreignNode } from "./errors.ts";
import type { Nodes } from "./nodes.ts";
import type { Exchange, Write, ZooKeeperSession } from "./session.ts";

/** Another writer was faster. `path`: of the first write that did not find what it expected. */
export class BeatenAt extends Beaten {
  readonly path: string | undefined;

  constructor(path: string | undefined) {
    super("other writers were faster");
    this.path = path;
  }
}

/** How often one commit creates missing folders, or leaves out a settled write, before the operation reads again. */
const mostRepairs = 6;

/** The writes of one transaction. */
export interface Multi {
  /** The writes that prove what stands under the name, or change it. */
  readonly stand: readonly Write[];
  readonly writes: readonly Write[];
  /** More folders to create first, in addition to those of the writes. */
  readonly folders?: readonly string[] | undefined;
  /** Whether a folder is known to be missing. Such a folder is created first. */
  readonly isMissing?: ((folder: string) => boolean) | undefined;
  /** Calls that are sent along. The operation does not depend on them. */
  readonly also?: ((session: ZooKeeperSession) => readonly Promise<unknown>[]) | undefined;
}

/** The result of a commit. */
export interface Done {
  /** The number of the session. */
  readonly session: number;
  /** The path of the ephemeral node that was created. */
  readonly ephemeral: string | undefined;
}

/**
 * Commits writes, all or none. Creates missing parents. Leaves out a write if its node already exists, or is already gone.
 * @throws BeatenAt; SnowleaseError SCHEMA_INCOMPATIBLE if another program's node is below a node that this removes.
 */
export async function commit(
  exchange: Exchange,
  nodes: Nodes,
  { stand, writes, folders: others = [], isMissing = () => false, also }: Multi,
): Promise<Done> {
  const all = [...stand, ...writes];
  const settled = new Set<Write>();
  // A folder is created only if the namespace still stands as it was read. The first folder is created only if nothing stood.
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
      // If the user may not create a folder, the server refuses it even if it exists. All other folders are then created.
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
      // A parent that is not a folder is created together with its child, or not at all.
      if (!folders.includes(parent)) parents.push({ op: "create", path: parent });
      missing = folders;
    } else if (write.op === "create" && write.contested) throw new BeatenAt(write.path);
    else settled.add(write);
  }
  throw new BeatenAt(undefined);
}

/** The folders of the nodes that these writes create, parents before children. Other parents are created only by their own writes. */
function foldersOf({ root, isFolder }: Nodes, writes: readonly Write[]): readonly string[] {
  const found = new Set<string>();
  const add = (path: string): void => {
    if (path.length > root.length) add(posix.dirname(path));
    if (isFolder(path)) found.add(path);
  };
  for (const { op, path } of writes) if (op === "create") add(posix.dirname(path));
  return [...found];
}
