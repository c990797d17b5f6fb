import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { lendLease } from "../../src/lend.ts";
import type { SharedSnowflake } from "../../src/sharing/shared-snowflake.ts";
import { snowlease, type SnowleaseOptions } from "../../src/snowlease.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { eventually, HolderProcess } from "../support/holder.ts";
import { Joined, mostIds } from "../support/joined.ts";

const namespace = "orders";

// A lender loads and compiles its server here when a child asks: on a busy machine that takes longer than a child waits.
beforeAll(() => Promise.all([import("../../src/http/app.ts"), import("../../src/http/server/server.ts")]));

let registry: Registry;
beforeEach(() => {
  registry = memoryRegistry();
});

async function share(options: SnowleaseOptions = {}): Promise<SharedSnowflake> {
  const ids = await snowlease({ registry, namespace, window: 6000, ...options, shared: true });
  onTestFinished(() => ids.close().catch(() => undefined));
  return ids;
}

/** Makes IDs on the lender's own generator, until `stop`. */
function makeHere(ids: SharedSnowflake): { made: bigint[]; stop: () => Promise<void> } {
  const made: bigint[] = [];
  let running = true;
  const end = (async () => {
    while (running && made.length < mostIds) {
      made.push(await ids.nextAsync());
      if (made.length % 256 === 0) await sleep(0);
    }
  })();
  return {
    made,
    async stop() {
      running = false;
      await end;
    },
  };
}

/** Compares all IDs, and looks each up in the recorded windows of its worker ID. */
async function expectDistinct(all: readonly bigint[]): Promise<void> {
  expect(new Set(all).size).toBe(all.length);
  const windows = new Map<number, readonly { from: number; until: number }[]>();
  for (const id of all) {
    const { workerId, timestamp } = defaultLayout.decompose(id);
    const rows = windows.get(workerId) ?? (await registry.history(namespace, workerId));
    windows.set(workerId, rows);
    if (!rows.some((row) => timestamp >= row.from && timestamp < row.until)) expect.fail(`${id} lies in no window`);
  }
}

test("threads and the lender make IDs on one worker ID, with threads that end early and new ones: no ID twice", async () => {
  const ids = await share();
  const here = makeHere(ids);
  const threads = [new Joined(ids.share()), new Joined(ids.share()), new Joined(ids.share())];
  await eventually(
    async () => Math.min(here.made.length, ...threads.map(({ count }) => count)),
    (least) => least > 2000,
  );
  await threads[0]?.thread.terminate();
  const late = new Joined(ids.share());
  await eventually(
    async () => late.count,
    (count) => count > 2000,
  );
  await Promise.all([threads[1]?.stop(), threads[2]?.stop(), late.stop(), here.stop()]);
  const all = [...here.made, ...late.ids(), ...threads.flatMap((thread) => thread.ids())];
  expect(new Set(all.map((id) => defaultLayout.decompose(id).workerId)).size).toBe(1);
  await ids.close();
  await expectDistinct(all);
});

test("the lender switches to another worker ID while threads hold blocks: they follow, and make no ID twice", async () => {
  const ids = await share({ onLost: "switch" });
  const threads = [new Joined(ids.share()), new Joined(ids.share())];
  const first = ids.lease.workerId;
  for (let round = 0; round < 3; round++) {
    const { workerId } = ids.lease;
    const counts = threads.map(({ count }) => count);
    await eventually(
      async () => Math.min(...threads.map(({ count }, i) => count - (counts[i] ?? 0))),
      (more) => more > 500,
    );
    await registry.forceRelease({ namespace, workerId, force: true });
    await ids.lease.renew();
    await eventually(
      async () => ids.lease.state,
      (state) => state === "held",
    );
    expect(ids.lease.workerId).not.toBe(workerId);
  }
  await Promise.all(threads.map((thread) => thread.stop()));
  const all = threads.flatMap((thread) => thread.ids());
  await expectDistinct(all);
  const workers = new Set(all.map((id) => defaultLayout.decompose(id).workerId));
  expect(workers.size).toBeGreaterThan(2);
  expect(workers).toContain(first);
});

test("a thread whose lender gave the worker ID back makes no more IDs, and the usage contains its IDs", async () => {
  const ids = await share();
  const { workerId } = ids.lease;
  const thread = new Joined(ids.share());
  await eventually(
    async () => thread.count,
    (count) => count > 1000,
  );
  const error = once(thread.thread, "error");
  await ids.close();
  expect(await error).toEqual([expect.objectContaining({ code: "LEASE_LOST" })]);
  const record = await registry.worker(namespace, workerId);
  expect(record?.clean).toBe(true);
  const last = Math.max(...thread.ids().map((id) => defaultLayout.decompose(id).timestamp));
  expect(record?.until).toBeGreaterThan(last);
  const next = await snowlease({ registry, namespace, workerId, claimTimeout: 6000 });
  onTestFinished(() => next.close());
  const after = await Promise.all(Array.from({ length: 5000 }, () => next.nextAsync()));
  await expectDistinct([...thread.ids(), ...after]);
});

test("a child that was stopped while its lender gave the worker ID back uses its blocks, and the next holder begins after them", async () => {
  const ids = await share();
  const { workerId } = ids.lease;
  const lender = await lendLease(ids);
  const child = new HolderProcess({ namespace }, { environment: lender.env });
  onTestFinished(() => child.kill());
  await child.ask("start");
  await child.ask("run");
  await eventually(
    async () => child.ids().length,
    (count) => count > 1000,
  );
  child.signal("SIGSTOP");
  await lender[Symbol.asyncDispose]();
  await ids.close();
  const before = child.ids().length;
  child.signal("SIGCONT");
  const next = await snowlease({ registry, namespace, workerId, window: 6000, claimTimeout: 12_000 });
  onTestFinished(() => next.close());
  const after: bigint[] = [];
  for (let turn = 0; turn < 100; turn++) {
    after.push(...next.take(4096));
    await sleep(1);
  }
  expect(child.ids().length).toBeGreaterThan(before);
  await child.kill();
  await expectDistinct([...child.ids(), ...after]);
});

test("child processes that are killed with -9 and stopped, beside their lender and its threads: no ID twice", async () => {
  const ids = await share();
  await using lender = await lendLease(ids);
  const here = makeHere(ids);
  const thread = new Joined(ids.share());
  const folder = mkdtempSync(join(tmpdir(), "snowlease-shared-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const children: HolderProcess[] = [];
  const startChild = async (): Promise<HolderProcess> => {
    const child = new HolderProcess({ namespace }, { environment: lender.env });
    children.push(child);
    onTestFinished(() => child.kill());
    expect(await child.ask("start")).toMatchObject({ workerId: ids.lease.workerId });
    await child.ask("run");
    return child;
  };
  const [one, two] = await Promise.all([startChild(), startChild()]);
  await eventually(
    async () => Math.min(one.ids().length, two.ids().length, thread.count),
    (least) => least > 1000,
  );
  await one.kill();
  two.signal("SIGSTOP");
  const three = await startChild();
  await eventually(
    async () => three.ids().length,
    (count) => count > 1000,
  );
  two.signal("SIGCONT");
  const before = two.ids().length;
  await eventually(
    async () => two.ids().length - before,
    (more) => more > 1000,
  );
  // Another worker ID for all of them.
  const { workerId } = ids.lease;
  await registry.forceRelease({ namespace, workerId, force: true });
  await ids.lease.renew();
  const isNew = (child: HolderProcess): boolean =>
    child.ids().some((id) => defaultLayout.decompose(id).workerId !== workerId);
  await eventually(
    async () => isNew(two) && isNew(three),
    (both) => both,
  );
  await Promise.all([here.stop(), thread.stop(), two.kill(), three.kill()]);
  await expectDistinct([...here.made, ...thread.ids(), ...children.flatMap((child) => child.ids())]);
});
