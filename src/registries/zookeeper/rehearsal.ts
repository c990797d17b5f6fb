import { bucketSize, type Nodes } from "./nodes.ts";
import type { Exchange, Write } from "./session.ts";

/** Sends what a claim and a renewal write, in a transaction that the server checks and then refuses: none of it ever takes effect. */
export async function rehearse(exchange: Exchange, nodes: Nodes): Promise<void> {
  const name = `rehearsal-${crypto.randomUUID()}`;
  const made = (folder: string): Write => ({ op: "create", path: `${folder}/${name}`, contested: true });
  await exchange(async (session) => {
    const writes = nodes.folders.map(made);
    const [bucket] = (await session.list(nodes.buckets)) ?? [];
    if (bucket !== undefined) {
      writes.push(...nodes.bucketsOf(Number(bucket) * bucketSize).map(made));
      const folder = nodes.states(Number(bucket));
      const [record] = (await session.list(folder)) ?? [];
      const path = `${folder}/${record}`;
      const node = await session.get(path);
      if (node !== undefined) writes.push({ op: "set", path, ...node });
    }
    // One of the nodes a second time: the server always refuses that.
    await session.commit([...writes, made(nodes.root)]);
  });
}
