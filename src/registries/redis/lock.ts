import { monotonic, systemClock } from "../../clock.ts";
import { within } from "../deadline.ts";
import { driverMissing } from "../driver-missing.ts";
import type { RedisConnection } from "./connection.ts";

/** The part of redlock 4 that this file uses. */
type Redlock = new (
  clients: readonly unknown[],
  options: { retryCount: number; retryDelay: number; retryJitter: number },
) => { lock(resource: string, ttl: number): Promise<{ unlock(): Promise<unknown> }> };

/**
 * Runs `work` while no other process has the same lock. If the lock is not available or expires, runs `work` without it. The lock only
 * keeps two processes of a host, which start at the same time, from trying the same worker ID.
 * `deadline`: of everything, on the monotonic clock, ms. The wait for the lock takes at most half of the remaining time.
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
    // The result does not wait for this. It also gives back a lock that comes too late.
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
