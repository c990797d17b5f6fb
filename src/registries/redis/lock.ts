import { monotonic, systemClock } from "../../clock.ts";
import { within } from "../deadline.ts";
import { driverMissing } from "../driver-missing.ts";
import type { RedisConnection } from "./connection.ts";

/** The used part of redlock 4. */
type Redlock = new (
  clients: readonly unknown[],
  options: { retryCount: number; retryDelay: number; retryJitter: number },
) => { lock(resource: string, ttl: number): Promise<{ unlock(): Promise<unknown> }> };

/**
 * Runs `work` while no other process has the same lock. Runs it without the lock, too, where that cannot be had or expires: the lock
 * only spares two processes of a host, which start at once, the same worker ID. `deadline`: of everything, on the monotonic clock, ms;
 * half of the remaining time may go into the wait for the lock.
 */
export async function withLock(
  connection: RedisConnection,
  name: string,
  deadline: number,
  work: () => Promise<void>,
): Promise<void> {
  const taking = takeLock(connection, name, deadline);
  await within(Math.max(0, (deadline - monotonic(systemClock)) / 2), taking).catch(() => undefined);
  try {
    await work();
  } finally {
    // The result does not wait for this; a lock that comes too late is given back, too.
    void taking.then((lock) => lock.unlock()).catch(() => undefined);
  }
}

async function loadRedlock(): Promise<Redlock> {
  try {
    return ((await import("redlock")) as unknown as { default: Redlock }).default;
  } catch (cause) {
    throw driverMissing("Redis", "redlock@4", cause);
  }
}

async function takeLock(connection: RedisConnection, name: string, deadline: number) {
  const Redlock = await loadRedlock();
  const lockers = new Redlock([await connection.client(deadline)], { retryCount: 10, retryDelay: 50, retryJitter: 50 });
  return lockers.lock(name, connection.operationTimeout);
}
