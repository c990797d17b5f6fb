import { once } from "node:events";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { SharedAllocator } from "../../src/sharing/shared-allocator.ts";

test("threads take blocks while snapshots begin and end: no block twice, and none after the reported end of its snapshot", async () => {
  const now = 1_790_000_000_000;
  const tick = defaultLayout.tickOf(now);
  const allocator = SharedAllocator.create(defaultLayout);
  const base = allocator.blockLayout.spanOf(tick);
  const stop = new Int32Array(new SharedArrayBuffer(4));
  const file = join(import.meta.dirname, "../support/block-taker.mjs");
  const threads = [0, 1].map(() => new Worker(file, { workerData: { buffer: allocator.buffer, base, stop } }));
  onTestFinished(async () => void (await Promise.all(threads.map((thread) => thread.terminate()))));
  await Promise.all(threads.map((thread) => once(thread, "message")));

  const ends = new Map<number, number>();
  for (let generation = 1; generation <= 1000; generation++) {
    const rest = {
      workerId: 7,
      fence: generation,
      from: now,
      until: now + 60_000,
      knownFrom: now,
      first: tick,
      since: now,
    };
    allocator.begin({ generation, ...rest });
    // Ends one of them in the middle of its work, as soon as one has taken a block.
    while (allocator.newest() === undefined) await turn();
    ends.set(generation, allocator.end() ?? -1);
  }
  Atomics.store(stop, 0, 1);
  const taken = (await Promise.all(threads.map((thread) => once(thread, "message")))).flatMap(
    ([each]) => each as [generation: number, span: number, blocks: number][],
  );

  const both = new Set<number>();
  const seen = new Map<string, number>();
  for (const [generation, span, blocks] of taken) {
    const key = `${generation}/${span}`;
    expect((seen.get(key) ?? 0) & blocks).toBe(0);
    seen.set(key, ((seen.get(key) ?? 0) | blocks) >>> 0);
    expect(ends.get(generation)).toBeGreaterThanOrEqual((span + 1) * allocator.blockLayout.ticks - 1);
    both.add(generation);
  }
  expect(both.size).toBeGreaterThan(500);
});
