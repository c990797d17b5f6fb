import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { SharedAllocator } from "../../src/sharing/shared-allocator.ts";
import { snowlease } from "../../src/snowlease.ts";
import { Sandbox } from "../support/cli.ts";
import { eventually } from "../support/holder.ts";
import { Joined } from "../support/joined.ts";

function startThread(name: string, workerData: object): Worker {
  const thread = new Worker(join(import.meta.dirname, "../support", name), { workerData });
  onTestFinished(async () => void (await thread.terminate()));
  return thread;
}

test("threads are terminated while they write snapshots: other threads go on reading, and read only whole snapshots", async () => {
  const { buffer } = SharedAllocator.create(defaultLayout);
  const counts = new Int32Array(new SharedArrayBuffer(8));
  startThread("snapshot-reader.mjs", { buffer, counts });
  for (let round = 1; round <= 40; round++) {
    const writer = startThread("snapshot-writer.mjs", { buffer, first: round * 1_000_000_000 });
    await once(writer, "message");
    await sleep(round % 5);
    await writer.terminate();
    const read = Atomics.load(counts, 0);
    await eventually(
      async () => Atomics.load(counts, 0) - read,
      (more) => more > 100,
    );
  }
  expect(Atomics.load(counts, 1)).toBe(0);
});

test("the thread with the lease is terminated: others use up its window, get an error, and the next holder repeats no ID", async () => {
  const registry = new Sandbox().registry;
  const lender = startThread("lender.mjs", { registry, window: 3000, workerId: 7 });
  const [{ shared, workerId }] = await once(lender, "message");
  const threads = [new Joined(shared), new Joined(shared)];
  await eventually(
    async () => Math.min(...threads.map(({ count }) => count)),
    (least) => least > 1000,
  );
  const ends = threads.map(({ thread }) => once(thread, "error"));
  await lender.terminate();
  await using next = await snowlease({ registry, workerId, claimTimeout: 20_000 });
  const after: bigint[] = [];
  for (const end of ends) {
    const [error] = await end;
    expect(error).toMatchObject({ code: "LEASE_LOST" });
  }
  while (after.length < 5000) after.push(await next.nextAsync());
  const all = [...threads.flatMap((thread) => thread.ids()), ...after];
  expect(new Set(all).size).toBe(all.length);
  expect(new Set(all.map((id) => defaultLayout.decompose(id).workerId))).toEqual(new Set([7]));
});
