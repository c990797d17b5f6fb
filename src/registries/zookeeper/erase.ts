import { monotonic, systemClock } from "../../clock.ts";
import type { Era } from "../../rule/era.ts";
import { codes, foreignNode } from "./errors.ts";
import type { Nodes } from "./nodes.ts";
import { standingBytes } from "./records.ts";
import type { Exchange, Write } from "./session.ts";
import { BeatenAt } from "./transaction.ts";

/*
 * The removal of a sealed namespace. Each transaction expects the node of the namespace as it was read. Children go before their parents,
 * so it takes several. A pin or a release may write in between, and is found: the last transaction deletes all folders, puts the note in
 * the place of the namespace, and fails where a folder has something in it.
 */

/** Nodes that are looked at, or deleted, at once: far from the longest request that a server takes. */
const batch = 250;

/** What is removed. */
interface Erasure {
  /** What proves that the namespace stands. */
  readonly stand: readonly Write[];
  /** Stands under its name from then on. */
  readonly noted: Era | undefined;
  /** Until when this part deletes, on the monotonic clock, ms. */
  readonly halt: number;
}

/** Deletes a part of a namespace, or the last one. @throws BeatenAt where something is in it by then */
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

  /** The server sends any list (110,000 names were tried); one of over 16 MiB (400,000 names) ends the connection. */
  async function below(paths: readonly string[]): Promise<readonly string[]> {
    const lists = await exchange((session) => Promise.all(paths.map((path) => session.list(path))));
    return paths.flatMap((path, i) => (lists[i] ?? []).map((name) => `${path}/${name}`));
  }

  /** Deletes what is below these nodes. Returns whether nothing is left there. */
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
  // The records first: a release then finds that its claim is gone, not that it has no place for a row.
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
