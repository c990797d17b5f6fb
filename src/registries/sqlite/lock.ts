import { readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { monotonic, systemClock } from "../../clock.ts";
import type { SnowleaseError } from "../../id/errors.ts";
import { busyError, fileError, isBusy } from "./errors.ts";
import { beside } from "./file.ts";
import { type QueuePlace, LockQueue } from "./queue.ts";

/** On a crowded machine, a process waits at most so many times longer. */
const mostPatience = 10;
/**
 * The longest pause between two tries of the first process in the queue, ms. Only a process outside of the queue has the lock then, for one
 * transaction.
 */
const longestPause = 25;

interface LockWish {
  /** Whether waiting processes come first. Default false: they come first only if the lock is not free. */
  readonly inTurn?: boolean;
  /** The error if the lock does not become free. Default: an error that advises to look for a stopped process. */
  readonly otherwise?: () => SnowleaseError;
}

/** How a connection waits for SQLite's lock on a registry's file, without blocking the event loop. */
export class FileLock {
  readonly #path: string;
  readonly #operationTimeout: number;
  readonly #queue: LockQueue;

  constructor(path: string, operationTimeout: number) {
    this.#path = path;
    this.#operationTimeout = operationTimeout;
    this.#queue = new LockQueue(path);
  }

  /** Whether another process may be waiting for the lock. */
  get isWanted(): boolean {
    return this.#queue.isThere;
  }

  /**
   * Tries until no other connection has the lock. A try that fails on the lock has changed nothing. Always measures time with the machine's
   * clock, because other processes share the lock.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE if this process did not get the lock for `operationTimeout`, and no other process wrote
   *   anything meanwhile. On a crowded machine, the limit is longer: it is multiplied by the count of tasks that share a core, because the
   *   process with the lock is one of them.
   */
  async whenFree<Answer>(attempt: (waited: boolean) => Answer, wish: LockWish = {}): Promise<Answer> {
    const { inTurn = false, otherwise = () => busyError(this.#path, this.#operationTimeout) } = wish;
    let place: QueuePlace | undefined;
    let standstill: (() => number) | undefined;
    try {
      if (inTurn && this.#queue.isThere) {
        standstill = standstillOf(this.#path);
        place = await this.#queue.join();
      }
      for (let [tries, isLast] = [0, false]; ;) {
        // The last try does not wait for its turn. The lock may be free while the processes before this one, or this one itself, were
        // stopped.
        if (isLast || place === undefined || (await place.isFirst((this.#operationTimeout / 2) * tasksPerCore()))) {
          try {
            return attempt(place !== undefined);
          } catch (error) {
            if (!isBusy(error)) throw fileError(error, this.#path);
          }
          if (isLast) throw otherwise();
          tries++;
        }
        standstill ??= standstillOf(this.#path);
        isLast = standstill() >= this.#operationTimeout;
        if (isLast) continue;
        if (place === undefined) place = await this.#queue.join();
        // Random, so that processes without a queue do not always try at the same time.
        else await systemClock.sleep(1 + Math.random() * (Math.min(longestPause, 2 * tries) - 1));
      }
    } finally {
      place?.leave();
    }
  }
}

/**
 * Returns a function that says for how long nothing was written to a file since this call, ms. The time counts less if more tasks share a
 * core.
 */
function standstillOf(path: string): () => number {
  let [seen, looked, lasted] = [stateOf(path), monotonic(systemClock), 0];
  return () => {
    const [seenBefore, lookedBefore] = [seen, looked];
    [seen, looked] = [stateOf(path), monotonic(systemClock)];
    lasted = seen === seenBefore ? lasted + (looked - lookedBefore) / tasksPerCore() : 0;
    return lasted;
  };
}

/** How many tasks of the machine share a core now, from 1 to `mostPatience`. 1 if there is no `/proc`. */
function tasksPerCore(): number {
  try {
    const [, running = 1] = /^\S+ \S+ \S+ (\d+)\//.exec(readFileSync("/proc/loadavg", "utf8")) ?? [];
    return Math.min(Math.max(1, Number(running) / availableParallelism()), mostPatience);
  } catch {
    return 1;
  }
}

/** Changes with each write to a registry. */
function stateOf(path: string): string {
  const [log] = beside(path);
  const found = [path, log].map((file) => statSync(file, { bigint: true, throwIfNoEntry: false }));
  return found.map((file) => `${file?.size} ${file?.mtimeNs}`).join();
}
