import { setTimeout as sleep } from "node:timers/promises";
import { monotonic, systemClock } from "../../lease/clock.ts";
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
 * it only spares two processes of a host that start at once from reaching for the same worker ID. `deadline`: of all of it, on the
 * monotonic clock, ms; half of what is left is spent on waiting.
 */
export async function withLock<Result>(
  connection: Connection,
  name: string,
  ttl: number,
  deadline: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const taking = take(connection, name, ttl, deadline);
  const given = new AbortController();
  const patience = Math.max(0, (deadline - monotonic(systemClock)) / 2);
  await Promise.race([taking, sleep(patience, undefined, { signal: given.signal }).catch(() => undefined)]);
  given.abort();
  try {
    return await work();
  } finally {
    // Nobody's answer waits for that; one that was given too late is of no use, either.
    void taking.then((late) => late?.unlock()).catch(() => undefined);
  }
}

async function take(connection: Connection, name: string, ttl: number, deadline: number): Promise<Lock | undefined> {
  try {
    const { default: Redlock } = (await import("redlock")) as unknown as { default: Redlock };
    const options = { retryCount: 10, retryDelay: 50, retryJitter: 50 };
    return await new Redlock([await connection.client(deadline)], options).lock(name, ttl);
  } catch {
    return undefined;
  }
}
