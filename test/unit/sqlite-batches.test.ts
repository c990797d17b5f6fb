import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { ClaimKey, ClaimRequest, Registry, Renewal } from "../../src/rule/registry.ts";
import { SqliteDatabase } from "../../src/registries/sqlite/database.ts";
import { fakeClock } from "../../src/testing.ts";
import { claimRequest as anyClaim, granted, keyOf } from "../support/claims.ts";
import { layout, namespace, newFolder, openRaw, openSqlite } from "../support/sqlite.ts";

const count = 60;
/** No window ends, and no request is late, unless a test lets time pass. */
const clock = fakeClock();
const claimRequest = (): ClaimRequest => anyClaim({ clock: clock.now() });

/** A registry with leases in it; `written` tells by how much its log has grown meanwhile, bytes. */
async function filled(): Promise<{
  registry: Registry;
  path: string;
  keys: readonly ClaimKey[];
  written(work: () => Promise<void>): Promise<number>;
}> {
  const path = join(newFolder(), "registry.db");
  const registry = await openSqlite(path, { clock });
  const requests = Array.from({ length: count }, () => claimRequest());
  const grants = await Promise.all(requests.map((request) => granted(registry, request)));
  const keys = requests.map((request, i) => keyOf(request, grants[i] ?? expect.fail()));
  const size = (): number => statSync(`${path}-wal`).size;
  return {
    registry,
    path,
    keys,
    async written(work) {
      const before = size();
      await work();
      return size() - before;
    },
  };
}

const renewal = (key: ClaimKey, window = 60_000): Parameters<Registry["renew"]>[0] => ({
  ...key,
  clock: clock.now(),
  window,
});

test("writes that come together are one transaction, and those that follow one another are not", async () => {
  const { registry, keys, written } = await filled();
  const apart = await written(async () => {
    for (const key of keys) expect(await registry.renew(renewal(key))).toMatchObject({ outcome: "renewed" });
  });
  await clock.advance(1000);
  const together = await written(async () => {
    const answers = await Promise.all(keys.map((key) => registry.renew(renewal(key))));
    for (const answer of answers) expect(answer.outcome).toBe("renewed");
  });
  await clock.advance(1000);
  // A transaction waits for further writes only so long, which a busy machine may take for a single one.
  const stopwatch = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => stopwatch.mockRestore());
  const shortlyAfterOneAnother = await written(async () => {
    const answers: Promise<unknown>[] = [];
    for (const key of keys) {
      answers.push(registry.renew(renewal(key)));
      // As over new connections: Node takes one a turn, and reads its request in another.
      await turn();
      await turn();
    }
    await Promise.all(answers);
  });
  expect(together).toBeLessThan(apart / 4);
  expect(shortlyAfterOneAnother).toBeLessThan(apart / 4);
  expect(new Set(keys.map(({ workerId }) => workerId)).size).toBe(count);
});

test("one that fails takes none of the others with it, and changes nothing", async () => {
  const { registry, keys } = await filled();
  const before = await registry.workers(namespace);
  const wrong = 7;
  const answers = await Promise.allSettled(
    keys.map((key, i) => registry.renew(renewal(key, i === wrong ? -1 : 90_000))),
  );
  expect(answers[wrong]).toMatchObject({ status: "rejected", reason: { code: "CONFIG_INVALID" } });
  const records = await registry.workers(namespace);
  for (const [i, { workerId }] of keys.entries()) {
    const { until } = records.find((record) => record.workerId === workerId) ?? {};
    if (i === wrong) expect(until).toBe(before.find((record) => record.workerId === workerId)?.until);
    else expect((answers[i] as PromiseFulfilledResult<Renewal>).value.until).toBe(until);
  }
});

test("those that were asked for before the registry is closed are done, also where one of them fails", async () => {
  const { registry, path, keys } = await filled();
  const asked = [
    ...keys.map((key) => registry.release({ ...key, clock: clock.now() })),
    registry.renew(renewal(keys[0] ?? expect.fail(), -1)).catch(() => undefined),
    ...Array.from({ length: count }, () => registry.claim(claimRequest())),
  ];
  const closed = registry.close();
  const answers = await Promise.all(asked);
  expect(answers.filter((answer) => answer !== undefined)).toHaveLength(2 * count);
  await closed;
  await expect(registry.claim(claimRequest())).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
  const again = await openSqlite(path, { clock });
  expect(await again.workers(namespace, { state: "live" })).toHaveLength(count);
});

test("what one has written before it fails is undone, and the others' writes stand", async () => {
  const path = join(newFolder(), "registry.db");
  const database = await SqliteDatabase.open({ path, clock: systemClock, operationTimeout: 5000 });
  onTestFinished(() => database.close());
  const add = (name: string): Promise<unknown> =>
    database.write(({ sql }) => {
      const made = { id: "1", receipt_key: "2", era: "1-a", quarantine_end: 0, opens_at: 0, created_at: 1 };
      sql.get("namespace.add", { name, layout, max_window: 1000, max_clock_skew: 1000, ...made });
      if (name === "b") throw new Error("b failed");
      return name;
    });
  expect(await Promise.allSettled(["a", "b", "c"].map(add))).toEqual([
    { status: "fulfilled", value: "a" },
    { status: "rejected", reason: new Error("b failed") },
    { status: "fulfilled", value: "c" },
  ]);
  const found = await database.read(({ sql }) =>
    ["a", "b", "c"].map((name) => sql.get("namespace.find", { name })?.layout),
  );
  expect(found).toEqual([layout, undefined, layout]);
});

test("none is answered before the transaction is durable", async () => {
  const path = join(newFolder(), "registry.db");
  const database = await SqliteDatabase.open({ path, clock: systemClock, operationTimeout: 5000 });
  onTestFinished(() => database.close());
  const asked = [database.write(() => "done"), database.write(() => rmSync(path)), database.write(() => "done")];
  for (const answer of await Promise.allSettled(asked)) {
    expect(answer).toMatchObject({ status: "rejected", reason: { code: "REGISTRY_UNAVAILABLE" } });
  }
});

test("none is answered where the transaction was not done, and then each is done once", async () => {
  const path = join(newFolder(), "registry.db");
  const registry = await openSqlite(path, { clock, operationTimeout: 300 });
  await registry.init({ namespace, layout });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  const claims = (): Promise<PromiseSettledResult<unknown>[]> =>
    Promise.allSettled(Array.from({ length: count }, () => registry.claim(claimRequest())));
  for (const answer of await claims()) {
    expect(answer).toMatchObject({ status: "rejected", reason: { code: "REGISTRY_UNAVAILABLE" } });
  }
  raw.exec("ROLLBACK");
  expect(await registry.workers(namespace)).toHaveLength(0);
  for (const answer of await claims()) expect(answer).toMatchObject({ status: "fulfilled" });
  expect(await registry.workers(namespace)).toHaveLength(count);
});
