import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { Layout } from "../../src/id/layout.ts";
import { lendLease } from "../../src/lend.ts";
import { snowlease } from "../../src/snowlease.ts";
import { eventually, HolderProcess, withoutSnowlease } from "../support/holder.ts";
import { newRegistryFile } from "../support/registry-file.ts";
import { openSqlite } from "../support/sqlite.ts";

/*
 * Something replaces the registry's file under a running holder. The new file knows nothing of
 * that holder. The tests compare all IDs of all holders.
 */

let folder: string;
let path: string;
let holders: HolderProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-replaced-"));
  path = join(folder, "registry.db");
  holders = [];
});

afterEach(async () => {
  await Promise.all(holders.map((holder) => holder.kill()));
  rmSync(folder, { recursive: true, force: true });
});

/** At least three ticks. A quarantine lasts a second longer, and each claim waits for its end. */
function limitsOf(layout: string) {
  return { maxWindow: Math.max(1000, 3 * Layout.parse(layout).tick), maxClockSkew: 500 };
}

function holder(options: { layout?: string; onLost?: string; mode?: string } = {}): HolderProcess {
  const limits = limitsOf(options.layout ?? "westid");
  const terms = { window: limits.maxWindow, claimTimeout: 40_000, ...limits };
  const made = new HolderProcess({ registry: `sqlite:${path}`, ...terms, ...options });
  holders.push(made);
  return made;
}

function expectDistinct(): void {
  const all = holders.flatMap((made) => made.ids());
  expect(all.length).toBeGreaterThan(1000);
  expect(all.length - new Set(all).size).toBe(0);
}

function removeAll(): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

/** Another registry with the same namespace, without any claim. */
async function newCopy(layout: string): Promise<string> {
  const { registry, url, stop } = await newRegistryFile();
  await registry.init({ namespace: "default", layout: Layout.parse(layout).fingerprint, ...limitsOf(layout) });
  await registry.close();
  const copy = join(folder, "copy.db");
  copyFileSync(url.slice("sqlite:".length), copy);
  await stop();
  return copy;
}

const ticks = {
  "1 ms": "westid",
  "10 ms": "sonyflake",
  "1 s": "timestamp:32,worker:10,sequence:13@1490346283706/1000",
};

const ways: readonly {
  readonly name: string;
  readonly layouts: object;
  readonly replace: (layout: string) => Promise<void>;
}[] = [
  { name: "is removed with its log", layouts: ticks, replace: async () => removeAll() },
  {
    name: "is renamed over by another registry",
    layouts: ticks,
    async replace(layout) {
      const copy = await newCopy(layout);
      rmSync(`${path}-wal`);
      rmSync(`${path}-shm`);
      renameSync(copy, path);
    },
  },
];

describe.each(ways)("a registry file that $name", ({ replace, layouts }) => {
  for (const [tick, layout] of Object.entries(layouts) as [string, string][]) {
    for (const onLost of ["switch", "stop"] as const) {
      test(`under a holder with ticks of ${tick} that is to ${onLost}: no ID twice`, async () => {
        const first = holder({ layout, onLost });
        expect(await first.ask("start")).toMatchObject({ workerId: 0, state: "held" });
        const second = holder({ layout });
        await second.ask("ready");
        await first.ask("run");
        await eventually(
          async () => first.ids().length,
          (made) => made > 1000,
        );
        await replace(layout);
        expect(await second.ask("start")).toMatchObject({ state: "held" });
        await second.ask("run");
        await eventually(
          async () => second.ids().length,
          (made) => made > 1000,
        );
        const state = await first.ask("state");
        expect(state.events.find(({ name }) => name === "lost")).toMatchObject({ code: "LEASE_LOST", workerId: 0 });
        if (onLost === "stop") {
          expect(state.state).toBe("lost");
        } else {
          // If the second holder was faster, the quarantine may have cost it this worker ID.
          await eventually(
            async () => [await first.ask("state"), await second.ask("state")],
            (states) => new Set(states.flatMap((each) => (each.state === "held" ? each.workerId : []))).size === 2,
          );
          for (const each of [first, second]) {
            const made = each.ids().length;
            await eventually(
              async () => each.ids().length,
              (now) => now > made + 500,
            );
            await each.ask("pause");
          }
        }
        expectDistinct();
      });
    }
  }
});

test.each(ways)("a registry file that $name under a holder in lead mode: no ID twice", async ({ replace }) => {
  const layout = "sonyflake";
  const [first, second] = [holder({ layout, mode: "lead" }), holder({ layout })];
  await first.ask("start");
  await second.ask("ready");
  await first.ask("run");
  await eventually(
    async () => first.ids().length,
    (made) => made > 20_000,
  );
  await replace(layout);
  // A claim that comes first may get times that the first holder has used, until that holder has told the new file.
  const registry = await openSqlite(path);
  await eventually(
    async () => (await registry.describe("default"))?.quarantineEnd,
    (end) => end !== undefined,
  );
  expect(await second.ask("start")).toMatchObject({ state: "held" });
  await second.ask("run");
  await eventually(
    async () => second.ids().length,
    (made) => made > 20_000,
  );
  expectDistinct();
});

test("a registry file that is removed under a lender, its thread and its child: no ID twice", async () => {
  const ids = await snowlease({ registry: `sqlite:${path}`, window: 30_000, onLost: "stop", shared: true });
  onTestFinished(() => ids.close().catch(() => undefined));
  const lender = await lendLease(ids);
  onTestFinished(() => lender[Symbol.asyncDispose]());
  const [out, stop] = [new SharedArrayBuffer(8 + 8 * 400_000), new Int32Array(new SharedArrayBuffer(4))];
  const thread = new Worker(new URL("../support/joined.mjs", import.meta.url), {
    workerData: { shared: ids.share(), stop, out },
  });
  onTestFinished(async () => void (await thread.terminate()));
  // The thread ends like this when the lease is lost for good.
  thread.on("error", (error) => expect(error).toMatchObject({ code: "LEASE_LOST" }));
  const inThread = (): number => Atomics.load(new Int32Array(out, 0, 1), 0);
  const child = new HolderProcess({}, { environment: lender.env });
  holders.push(child);
  await child.ask("start");
  await child.ask("run");
  await eventually(
    async () => Math.min(child.ids().length, inThread()),
    (least) => least > 1000,
  );
  removeAll();
  // The lender, in this blocked thread, learns nothing meanwhile.
  const script = `
    const { snowlease } = await import(${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)});
    const ids = await snowlease({ registry: ${JSON.stringify(`sqlite:${path}`)} });
    const made = [];
    for (const end = performance.now() + 700; performance.now() < end;) {
      made.push(...ids.take(256));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    console.log(made.join("\\n"));`;
  const args = ["--input-type=module", "-e", script];
  const theirs = execFileSync(process.execPath, args, {
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    env: withoutSnowlease(),
  });
  await child.ask("pause");
  await eventually(
    async () => ids.lease.state,
    (state) => state === "lost",
  );
  const all = [...child.ids(), ...new BigUint64Array(out, 8, inThread()), ...theirs.trim().split("\n").map(BigInt)];
  expect(all.length - new Set(all).size).toBe(0);
  expect(theirs.length).toBeGreaterThan(20_000);
});
