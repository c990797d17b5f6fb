import { setTimeout as sleep } from "node:timers/promises";
import { monotonic, systemClock } from "../../lease/clock.ts";
import type { RedisConnection } from "./connection.ts";

interface TakenLock {
  unlock(): Promise<unknown>;
}

/** The used part of redlock 4. */
type Redlock = new (
  clients: readonly unknown[],
  options: { retryCount: number; retryDelay: number; retryJitter: number },
) => { lock(resource: string, ttl: number): Promise<TakenLock> };

/**
 * Runs `work` while no other process has the same lock. Runs it without the lock, too, where that cannot be had or expires: the lock
 * only spares two processes of a host, which start at once, the same worker ID. `deadline`: of everything, on the monotonic clock, ms;
 * half of the remaining time may go into the wait for the lock.
 */
export async function withLock<Result>(
  connection: RedisConnection,
  name: string,
  deadline: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const taking = takeLock(connection, name, deadline);
  const given = new AbortController();
  const longest = Math.max(0, (deadline - monotonic(systemClock)) / 2);
  await Promise.race([taking, sleep(longest, undefined, { signal: given.signal }).catch(() => undefined)]);
  given.abort();
  try {
    return await work();
  } finally {
    // The result does not wait for this; a lock that comes too late is given back, too.
    void taking.then((late) => late?.unlock()).catch(() => undefined);
  }
}

/** Takes a lock that expires when an operation would. */
async function takeLock(connection: RedisConnection, name: string, deadline: number): Promise<TakenLock | undefined> {
  try {
    const { default: Redlock } = (await import("redlock")) as unknown as { default: Redlock };
    const options = { retryCount: 10, retryDelay: 50, retryJitter: 50 };
    return await new Redlock([await connection.client(deadline)], options).lock(name, connection.operationTimeout);
  } catch {
    return undefined;
  }
}
