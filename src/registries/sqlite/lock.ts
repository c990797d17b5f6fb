import { readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { monotonic, systemClock } from "../../clock.ts";
import type { SnowleaseError } from "../../id/errors.ts";
import { busyError, fileError, isBusy } from "./errors.ts";
import { beside } from "./file.ts";
import { type QueuePlace, LockQueue } from "./queue.ts";

/** On a crowded machine a process waits at most so many times as long. */
const mostPatience = 10;
/** Longest pause between two tries of the first process in the queue, ms. A process that is not in the queue has the lock for a transaction. */
const longestPause = 25;

interface LockWish {
  /** Whether processes that wait already come first. Default false: only while the lock is not free. */
  readonly inTurn?: boolean;
  /** The error where the lock does not become free. Default: advises to look for a stopped process. */
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

  /** Whether another process may be waiting for it. */
  get isWanted(): boolean {
    return this.#queue.isThere;
  }

  /**
   * Tries until no other connection has the lock. A try that fails on the lock has changed nothing. Measures time with the machine's
   * clock, also where the registry has another one: the lock is shared with other processes.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE when it did not get the lock for `operationTimeout`, and no other process wrote anything
   * meanwhile. On a crowded machine it waits as many times as long as tasks share a core: the process that has the lock is one of them.
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
        // The last try needs no turn: the lock may be free while the processes before this one, or this one itself, were stopped.
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
        // Random, so that processes without a queue do not try at the same time each time.
        else await systemClock.sleep(1 + Math.random() * (Math.min(longestPause, 2 * tries) - 1));
      }
    } finally {
      place?.leave();
    }
  }
}

/** Returns a function that says for how long nothing was written to a file since this call, ms; the more tasks share a core, the less. */
function standstillOf(path: string): () => number {
  let [seen, looked, lasted] = [stateOf(path), monotonic(systemClock), 0];
  return () => {
    const [seenBefore, lookedBefore] = [seen, looked];
    [seen, looked] = [stateOf(path), monotonic(systemClock)];
    lasted = seen === seenBefore ? lasted + (looked - lookedBefore) / tasksPerCore() : 0;
    return lasted;
  };
}

/** How many tasks of the machine share a core now, from 1 to `mostPatience`. 1 where there is no `/proc`. */
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
