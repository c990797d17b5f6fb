import { monotonic, systemClock } from "../../clock.ts";
import type { Era } from "../../rule/era.ts";
import { codes, foreignNode } from "./errors.ts";
import type { Nodes } from "./nodes.ts";
import { standingBytes } from "./records.ts";
import type { Exchange, Write } from "./session.ts";
import { BeatenAt } from "./transaction.ts";

/*
 * The removal of a sealed namespace. Each transaction expects the node of the namespace as it was read. Children go before their parents,
 * so the removal takes several transactions. A pin or a release may write in between. The removal notices this: its last transaction
 * deletes all folders, puts the note in the place of the namespace, and fails if a folder is not empty.
 */

/** How many nodes are read, or deleted, at once. This is far from the longest request that a server accepts. */
const batch = 250;

/** The namespace to remove. */
interface Erasure {
  /** The writes that prove that the namespace stands. */
  readonly stand: readonly Write[];
  /** The era that stands under its name after the removal. */
  readonly noted: Era | undefined;
  /** When this part stops deleting, on the monotonic clock, ms. */
  readonly halt: number;
}

/** Deletes a part of a namespace, or its last part. @throws BeatenAt if another writer has put something into it meanwhile */
export async function erase(
  exchange: Exchange,
  { root, meta, unpins, folders, mark }: Nodes,
  { stand, noted, halt }: Erasure,
): Promise<void> {
  async function write(writes: readonly Write[]): Promise<void> {
    const { failed, code } = await exchange((session) => session.commit(writes));
    if (failed === undefined) return;
    const path = writes[failed]?.path ?? "";
    if (code === codes.notEmpty && path.startsWith(`${meta}/`)) throw foreignNode(path, "other nodes below it");
    throw new BeatenAt(path);
  }

  /**
   * The names below these nodes. The server sends a list of any length (tested with 110,000 names). A list of over 16 MiB (400,000 names)
   * ends the connection.
   */
  async function below(paths: readonly string[]): Promise<readonly string[]> {
    const lists = await exchange((session) => Promise.all(paths.map((path) => session.list(path))));
    return paths.flatMap((path, i) => (lists[i] ?? []).map((name) => `${path}/${name}`));
  }

  /** Deletes all nodes below these nodes. Returns whether none is left. */
  async function empty(paths: readonly string[]): Promise<boolean> {
    for (let at = 0; at < paths.length; at += batch) {
      const found = await below(paths.slice(at, at + batch));
      for (let from = 0; from < found.length; from += batch) {
        const some = found.slice(from, from + batch);
        if (!(await empty(some))) return false;
        await write([...stand, ...some.map(remove)]);
        if (monotonic(systemClock) > halt) return false;
      }
    }
    return true;
  }

  const there = await below([root]);
  const own = [...folders, unpins].filter((path) => there.includes(path));
  // Deletes the records first. A release then finds that its claim is gone, and not that a row has no place.
  for (const folder of own) if (!(await empty([folder]))) return;
  const marks = (await below([meta])).map(remove);
  if (noted !== undefined) {
    const note: Write = { op: "set", path: meta, data: standingBytes({ noted }), version: -1 };
    const made: Write = { op: "create", path: mark({ noted }) ?? "", contested: true };
    return write([...stand, note, ...marks, made, ...own.map(remove)]);
  }
  // Another registry may have its chroot here.
  const others = there.some((path) => path !== meta && !own.includes(path));
  const rest = [...own, ...(others ? [] : [root])].map(remove);
  await write([...stand, ...marks, remove(meta), ...rest]);
}

function remove(path: string): Write {
  return { op: "remove", path };
}
