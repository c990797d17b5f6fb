import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished } from "vitest";
import type { SharedLease } from "../../src/sharing/joined-lease.ts";

/** The most IDs that a thread makes. */
export const mostIds = 400_000;

/** A thread that makes IDs until `stop`. */
export class Joined {
  readonly thread: Worker;
  readonly #out = new SharedArrayBuffer(8 + 8 * mostIds);
  readonly #stop = new Int32Array(new SharedArrayBuffer(4));

  constructor(shared: SharedLease) {
    const file = join(import.meta.dirname, "joined.mjs");
    this.thread = new Worker(file, { workerData: { shared, stop: this.#stop, out: this.#out } });
    onTestFinished(async () => void (await this.thread.terminate()));
  }

  get count(): number {
    return Atomics.load(new Int32Array(this.#out, 0, 1), 0);
  }

  ids(): bigint[] {
    return [...new BigUint64Array(this.#out, 8, this.count)];
  }

  async stop(): Promise<void> {
    const end = once(this.thread, "exit");
    Atomics.store(this.#stop, 0, 1);
    expect(await end).toEqual([0]);
  }
}
