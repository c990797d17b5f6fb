import { isObstacle } from "../../rule/drop.ts";
import { commit } from "./commit.ts";
import type { Nodes } from "./nodes.ts";
import { readRecord } from "./records.ts";
import { numberOf } from "./nodes.ts";
import type { Write } from "./session.ts";
import type { ZooKeeperStore } from "./store.ts";

/** Nodes that are looked at, and removed, at once. */
const batch = 20;

/**
 * Removes what is left of a namespace that was dropped, as long as none of its name is made. A record whose window has not passed stays: a
 * claim or a renewal wrote it at the same time, and the next namespace grants its worker ID behind that window. `final`: nothing stays.
 */
export async function sweep(store: ZooKeeperStore, nodes: Nodes, final: boolean): Promise<void> {
  const { clock } = await store.read(nodes, async () => undefined);
  const [root = "", ...folders] = nodes.folders;
  for (const folder of folders) await emptied(folder);
  if (final) await removed([...folders, nodes.era, root].map((path): Write => ({ op: "remove", path })));

  async function emptied(folder: string): Promise<void> {
    const names = (await store.ask((session) => session.list(folder))) ?? [];
    for (let at = 0; at < names.length; at += batch) {
      const paths = names.slice(at, at + batch).map((name) => `${folder}/${name}`);
      const lists = await store.ask((session) => Promise.all(paths.map((path) => session.list(path))));
      for (const [i, path] of paths.entries()) if ((lists[i] ?? []).length > 0) await emptied(path);
      await removed(await writesFor(paths));
    }
  }

  async function writesFor(paths: readonly string[]): Promise<readonly Write[]> {
    const records = final ? [] : paths.filter((path) => recordAt(path) !== undefined);
    const found = await store.ask((session) => Promise.all(records.map((path) => session.get(path))));
    return paths.flatMap((path): Write[] => {
      const node = found[records.indexOf(path)];
      if (node === undefined) return [{ op: "remove", path }];
      const { record, version } = readRecord(node, path, recordAt(path) ?? -1);
      return isObstacle(record, clock) ? [] : [{ op: "remove", path, version }];
    });
  }

  /** The worker ID of the record at this path; undefined for another node. */
  function recordAt(path: string): number | undefined {
    return path.startsWith(`${nodes.buckets}/`) ? numberOf(path.slice(path.lastIndexOf("/") + 1)) : undefined;
  }

  async function removed(writes: readonly Write[]): Promise<void> {
    // Proves that there is no namespace.
    const proof: readonly Write[] = [
      { op: "create", path: nodes.meta, contested: true },
      { op: "remove", path: nodes.meta },
    ];
    for (const write of writes) {
      const isRoot = write.path === root;
      await store.run(({ exchange }) => commit(exchange, isRoot ? [write] : [...proof, write]));
    }
  }
}
