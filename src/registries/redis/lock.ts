import type { Connection } from "./connection.ts";

interface Lock {
  unlock(): Promise<unknown>;
}

/** redlock 4: its types belong to nobody else. */
type Redlock = new (
  clients: readonly unknown[],
  options: { retryCount: number; retryDelay: number; retryJitter: number },
) => { lock(resource: string, ttl: number): Promise<Lock> };

/**
 * Does something while nobody else who asks for the same lock does. Without the lock, or when it runs out, it is done all the same:
 * it only spares two processes of a host that start at once from reaching for the same worker ID.
 */
export async function withLock<Result>(
  connection: Connection,
  name: string,
  ttl: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const lock = await take(connection, name, ttl);
  try {
    return await work();
  } finally {
    await lock?.unlock().catch(() => undefined);
  }
}

async function take(connection: Connection, name: string, ttl: number): Promise<Lock | undefined> {
  try {
    const { default: Redlock } = (await import("redlock")) as unknown as { default: Redlock };
    const options = { retryCount: 10, retryDelay: 50, retryJitter: 50 };
    return await new Redlock([await connection.client()], options).lock(name, ttl);
  } catch {
    return undefined;
  }
}
