import { noNamespace } from "../../rule/window.ts";
import type { Nodes } from "./nodes.ts";
import { readStanding } from "./records.ts";
import type { Exchange, Write } from "./session.ts";

/**
 * Sends the writes of a claim and a renewal in a transaction that the server checks and then refuses. None of the writes ever takes effect.
 */
export async function rehearse(exchange: Exchange, { namespace, root, meta, folders }: Nodes): Promise<void> {
  const name = `rehearsal-${crypto.randomUUID()}`;
  const made = (folder: string): Write => ({ op: "create", path: `${folder}/${name}`, contested: true });
  await exchange(async (session) => {
    const stands = await session.get(meta);
    if (stands === undefined || readStanding(stands, meta).made === undefined) throw noNamespace(namespace);
    const below = async (path: string): Promise<readonly string[]> =>
      ((await session.list(path)) ?? []).map((child) => `${path}/${child}`);
    const there = (await below(root)).filter((path) => folders.includes(path));
    const writes: Write[] = [{ op: "set", path: meta, ...stands }, ...[root, ...there].map(made)];
    const [slot] = await below(`${root}/state`);
    const [record] = slot === undefined ? [] : await below(slot);
    const node = record === undefined ? undefined : await session.get(record);
    if (slot !== undefined) writes.push(made(slot));
    if (record !== undefined && node !== undefined) writes.push({ op: "set", path: record, ...node });
    // Creates one of the nodes a second time. The server always refuses that.
    await session.commit([...writes, made(root)]);
  });
}
