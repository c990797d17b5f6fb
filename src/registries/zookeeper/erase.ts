import { monotonic, systemClock } from "../../clock.ts";
import type { Era } from "../../rule/era.ts";
import type { ZooKeeperAttempt } from "./attempt.ts";
import { BeatenAt } from "./commit.ts";
import type { Nodes } from "./nodes.ts";
import { eraBytes } from "./records.ts";
import type { Exchange, Write, ZooKeeperSession } from "./session.ts";
import type { Beginning } from "./store.ts";

/*
 * The removal of a sealed namespace. Each transaction expects the era that was read. Children go before their
 * parents, so it takes several. A pin or a release may write in between, and is found: the last transaction deletes
 * all folders, the namespace, and writes the note, and it fails where a folder has something in it. A later write
 * finds no parent.
 *
 * The node of the note is that of the era, so that its version rises on: a write that was decided before the removal
 * does not take effect on a namespace that is made there later. Where nothing is noted, the version begins again: an
 * operator confirmed that no namespace is.
 */

/** Nodes that are looked at, or deleted, at once: far from the longest request that a server takes. */
const batch = 250;

/** Deletes what is below the folders, until this time on the monotonic clock. Returns whether nothing was left. */
export async function eraseBelow(attempt: ZooKeeperAttempt, halt: number): Promise<boolean> {
  const { nodes, tried } = attempt;
  const { exchange } = tried;

  /** The server sends any list (110,000 names were tried); one of over 16 MiB (400,000 names) ends the connection. */
  async function below(paths: readonly string[]): Promise<readonly string[]> {
    const lists = await exchange((session) => Promise.all(paths.map((path) => session.list(path))));
    return paths.flatMap((path, i) => (lists[i] ?? []).map((name) => `${path}/${name}`));
  }

  /** Deletes nodes with all that is below them. */
  async function erase(paths: readonly string[]): Promise<boolean> {
    for (let at = 0; at < paths.length; at += batch) {
      const some = paths.slice(at, at + batch);
      if (!(await erase(await below(some)))) return false;
      await attempt.commit(some.map((path) => ({ op: "remove", path })));
      if (monotonic(systemClock) > halt) return false;
    }
    return true;
  }

  // The records first: a release then finds that its claim is gone, not that it has no place for a row.
  for (const folder of [nodes.buckets, ...(await childrenOf(exchange, nodes)).own]) {
    if (!(await erase(await below([folder])))) return false;
  }
  return true;
}

/** Deletes a namespace of which only folders are left, as it was read. @throws BeatenAt where something is in them */
export async function removeNamespace(
  exchange: Exchange,
  nodes: Nodes,
  { meta, era }: Pick<Beginning<unknown>, "meta" | "era">,
  note: Era | undefined,
): Promise<void> {
  const remove = (path: string, version: number = -1): Write => ({ op: "remove", path, version });
  const version = era?.version ?? 0;
  const { own, others } = await childrenOf(exchange, nodes);
  const rest: readonly Write[] =
    note === undefined
      ? [remove(nodes.era, version), ...(others ? [] : [remove(nodes.root)])]
      : [{ op: "set", path: nodes.era, data: eraBytes(note), version }];
  const writes = [remove(nodes.meta, meta?.version), ...own.map((path) => remove(path)), ...rest];
  // Not by `commit`, which leaves out what cannot be removed.
  const failure = await exchange((session: ZooKeeperSession) => session.commit(writes));
  if (failure !== undefined) throw new BeatenAt(writes[failure.failed]?.path);
}

/** The folders of a namespace that are there, and whether others are: another registry may have its chroot here. */
async function childrenOf(
  exchange: Exchange,
  { root, meta, era, folders }: Nodes,
): Promise<{ readonly own: readonly string[]; readonly others: boolean }> {
  const names = (await exchange((session) => session.list(root))) ?? [];
  const paths = names.map((name) => `${root}/${name}`);
  const own = paths.filter((path) => folders.includes(path));
  return { own, others: paths.some((path) => path !== meta && path !== era && !folders.includes(path)) };
}
