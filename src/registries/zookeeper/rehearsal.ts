import type { Nodes } from "./nodes.ts";
import type { Write } from "./session.ts";
import type { ZooKeeperStore } from "./store.ts";

/** Sends what a claim and a renewal write, in a transaction that the server checks and then refuses: none of it ever takes effect. */
export async function rehearse({ connection }: ZooKeeperStore, deadline: number, nodes: Nodes): Promise<void> {
  const name = `rehearsal-${crypto.randomUUID()}`;
  const made = (folder: string): Write => ({ op: "create", path: `${folder}/${name}`, contested: true });
  await connection.exchange(deadline, async (session) => {
    const [bucket] = (await session.list(nodes.buckets)) ?? [];
    const places = nodes.folders.flatMap((folder) => {
      const below = ["state", "live", "history"].map((place) => `${nodes.root}/${place}`).includes(folder);
      return bucket !== undefined && below ? [folder, `${folder}/${bucket}`] : [folder];
    });
    const records = bucket === undefined ? undefined : `${nodes.buckets}/${bucket}`;
    const [record] = records === undefined ? [] : ((await session.list(records)) ?? []);
    const node = record === undefined ? undefined : await session.get(`${records}/${record}`);
    const writes = places.map(made);
    if (node !== undefined) writes.push({ op: "set", path: `${records}/${record}`, ...node });
    // One of the nodes a second time: the server always refuses that.
    await session.commit([...writes, made(nodes.root)]);
  });
}
