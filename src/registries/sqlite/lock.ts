import { statSync } from "node:fs";
import { monotonic, systemClock } from "../../core/clock.ts";
import type { SnowleaseError } from "../../core/errors.ts";
import { busyError, fileError, isBusy } from "./errors.ts";
import { beside } from "./file.ts";
import { type Place, Queue } from "./queue.ts";

/** Longest pause between two tries of the first one in the queue, ms: the one before it that has no place there has the lock for a transaction. */
const longestPause = 25;

interface Wish {
  /** When the lock was wanted first, on the monotonic clock, ms. Default: now. */
  readonly asked?: number;
  /** Whether processes that wait already come first. Default: only where the lock is not free. */
  readonly inTurn?: boolean;
  /** What it means that it cannot be had. Default: the advice to look for a process that is stopped. */
  readonly otherwise?: () => SnowleaseError;
}

/** How a connection waits for SQLite's lock on a registry's file, without blocking the event loop. */
export class Lock {
  readonly #path: string;
  readonly #operationTimeout: number;
  readonly #queue: Queue;
  /** The file's state when it was last looked at, and when it was last seen to change, on the monotonic clock, ms. */
  #seen: string | undefined;
  #moved = 0;

  constructor(path: string, operationTimeout: number) {
    this.#path = path;
    this.#operationTimeout = operationTimeout;
    this.#queue = new Queue(path);
  }

  /** Whether others may be waiting for it. */
  get isWanted(): boolean {
    return this.#queue.isThere;
  }

  /**
   * Tries until no other connection has the lock. Nothing was changed by a try that failed on it. All times are real ones, whatever clock was
   * given: the others' locks are.
   * @throws SnowleaseError REGISTRY_UNAVAILABLE when it did not get it for `operationTimeout`, and no other process wrote anything meanwhile
   */
  async whenFree<Answer>(attempt: (waited: boolean) => Answer, wish: Wish = {}): Promise<Answer> {
    const { asked = now(), inTurn = false, otherwise = () => busyError(this.#path, this.#operationTimeout) } = wish;
    let place: Place | undefined;
    try {
      if (inTurn && this.#queue.isThere) place = await this.#queue.join();
      for (let tries = 0; ;) {
        if (place === undefined || (await place.isFirst(this.#operationTimeout / 2))) {
          try {
            const answer = attempt(place !== undefined);
            this.#moved = now();
            return answer;
          } catch (error) {
            if (!isBusy(error)) throw fileError(error, this.#path);
          }
          tries++;
        }
        if (this.#standsStill(asked)) throw otherwise();
        if (place === undefined) place = await this.#queue.join();
        // Random, so that processes without a queue do not try at the same time again.
        else await systemClock.sleep(1 + Math.random() * (Math.min(longestPause, 2 * tries) - 1));
      }
    } finally {
      place?.leave();
    }
  }

  #standsStill(asked: number): boolean {
    const seen = stateOf(this.#path);
    if (seen !== this.#seen) [this.#seen, this.#moved] = [seen, now()];
    return now() - Math.max(asked, this.#moved) >= this.#operationTimeout;
  }
}

function now(): number {
  return monotonic(systemClock);
}

/** Changes with everything that is written to a registry. */
function stateOf(path: string): string {
  const [log] = beside(path);
  const found = [path, log].map((file) => statSync(file, { bigint: true, throwIfNoEntry: false }));
  return found.map((file) => `${file?.size} ${file?.mtimeNs}`).join();
}
