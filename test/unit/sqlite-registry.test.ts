import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { systemClock } from "../../src/clock.ts";
import type { ClaimRequest, Grant, Registry, WorkerState } from "../../src/rule/registry.ts";
import { type Stored, stateOf } from "../../src/rule/window.ts";
import type { SqliteOptions } from "../../src/registries/sqlite/registry.ts";
import { type FakeClock, fakeClock } from "../../src/testing.ts";
import {
  claimRequest as requestWith,
  layout,
  namespace,
  newFolder,
  on,
  openRaw,
  openSqlite as openWith,
} from "../support/sqlite.ts";

/** The clock of registries and claimers. It stands still, whatever the machine does meanwhile. */
let clock: FakeClock;
beforeEach(() => void (clock = fakeClock()));

/** Waiting for a lock goes by the machine's clock all the same. */
const openSqlite = (path: string, options: Partial<SqliteOptions> = {}): Promise<Registry> =>
  openWith(path, { clock, operationTimeout: 600_000, ...options });

const claimRequest = (options: Partial<ClaimRequest> = {}): ClaimRequest =>
  requestWith({ clock: clock.now(), ...options });

async function granted(registry: Registry, options: Partial<ClaimRequest> = {}): Promise<Grant> {
  const answer = await registry.claim(claimRequest(options));
  if (answer.outcome !== "granted") throw new Error(`Expected a grant, got ${JSON.stringify(answer)}.`);
  return answer;
}

const newPath = (): string => join(newFolder(), "registry.db");

test("it says what it is and what survives", async () => {
  const registry = await openSqlite(newPath(), { clock: systemClock });
  const before = Date.now();
  const { clock, durability } = await registry.ping();
  const after = Date.now();
  expect(registry.kind).toBe("sqlite");
  expect(clock).toBeGreaterThan(before - 10_000);
  expect(clock).toBeLessThan(after + 10_000);
  expect(durability).toContain("kill -9 and power loss");
});

test("what it stores has a version", async () => {
  expect((await (await openSqlite(newPath())).ping()).schema).toBe(2);
});

test("`ping` fails where nothing can be written", async () => {
  const path = newPath();
  const registry = await openSqlite(path, { operationTimeout: 60 });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  await expect(registry.ping()).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
  raw.exec("ROLLBACK");
  await registry.ping();
  expect(raw.prepare("SELECT * FROM operation").all()).toEqual([]);
});

test("`ping` and `verify` find what is damaged", async () => {
  const path = newPath();
  const made = await openSqlite(path);
  await granted(made);
  await made.verify?.();
  await made.close();
  const bytes = readFileSync(path);
  const size = bytes.readUInt16BE(16);
  let [found, schemaPages] = [0, 0];
  for (let page = 1; page < bytes.length / size; page++) {
    const damaged = Buffer.from(bytes).fill(0xa5, page * size, (page + 1) * size);
    const copy = `${path}.${page}`;
    writeFileSync(copy, damaged);
    const damage = { code: "REGISTRY_UNAVAILABLE" };
    const registry = await openSqlite(copy).catch((error: SnowleaseError) => error);
    if (registry instanceof SnowleaseError) {
      // A page of the schema: none of it can be used.
      expect(registry).toMatchObject(damage);
      schemaPages++;
      found++;
      continue;
    }
    await expect(registry.verify?.()).rejects.toMatchObject(damage);
    found += await registry.ping().then(
      () => 0,
      ({ code }: SnowleaseError) => Number(code === damage.code),
    );
  }
  expect(schemaPages).toBeLessThanOrEqual(2);
  // All but the one index that only `prune` reads.
  expect(found).toBeGreaterThanOrEqual(bytes.length / size - 2);
});

test("once it is closed the file is whole without its log", async () => {
  const path = newPath();
  const registry = await openSqlite(path);
  await granted(registry);
  await registry.close();
  const copy = `${path}.copy`;
  copyFileSync(path, copy);
  expect(await (await openSqlite(copy)).worker(namespace, 0)).toMatchObject({ state: "live" });
});

test("a lock that others hold for longer than the operation timeout is REGISTRY_UNAVAILABLE, and nothing was changed", async () => {
  const path = newPath();
  const registry = await openSqlite(path, { operationTimeout: 60 });
  await registry.init({ namespace, layout });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  const asked = [registry.claim(claimRequest()), registry.claim(claimRequest())];
  for (const answer of await Promise.allSettled(asked)) {
    expect(answer).toMatchObject({ reason: { code: "REGISTRY_UNAVAILABLE", retryable: true } });
  }
  // Reading needs no lock.
  expect(await registry.workers(namespace)).toEqual([]);
  raw.exec("ROLLBACK");
  expect(await registry.workers(namespace)).toEqual([]);
  expect(await granted(registry)).toMatchObject({ workerId: 0, fence: 1 });
});

test("while it waits for a lock the event loop goes on, and so does the holder's clock", async () => {
  const path = newPath();
  const registry = await openSqlite(path);
  await registry.init({ namespace, layout });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  const asked = granted(registry);
  // This would never come to an end if waiting blocked: the lock is this process's own.
  await expect.poll(() => existsSync(`${path}-queue`)).toBe(true);
  await clock.advance(150);
  const freed = clock.now();
  raw.exec("ROLLBACK");
  const { workerId } = await asked;
  const record = await registry.worker(namespace, workerId);
  expect(record?.seenClock).toBeGreaterThanOrEqual(freed - 2);
});

test("what it waited for while it was opened does not stand in its way later", async () => {
  const path = newPath();
  const raw = await openRaw(path);
  raw.exec("BEGIN EXCLUSIVE");
  const opened = openSqlite(path);
  await sleep(50);
  raw.exec("ROLLBACK");
  const registry = await opened;
  const other = await openSqlite(path);
  for (let round = 0; round < 3; round++) {
    await granted(other);
    await granted(registry);
  }
});

test("a request that did not wait keeps its clock", async () => {
  const registry = await openSqlite(newPath());
  const seenClock = clock.now() - 777;
  const asked = granted(registry, { clock: seenClock });
  // Getting there takes time as well.
  await clock.advance(5);
  const { workerId } = await asked;
  expect(await registry.worker(namespace, workerId)).toMatchObject({ seenClock });
});

test("operations of one registry are done in the order in which they were asked, even behind a lock", async () => {
  const path = newPath();
  const registry = await openSqlite(path);
  await registry.init({ namespace, layout });
  const raw = await openRaw(path);
  raw.exec("BEGIN IMMEDIATE");
  const asked = Array.from({ length: 20 }, (_, i) => granted(registry, { holder: on(`h${i}`) }));
  await sleep(30);
  raw.exec("ROLLBACK");
  const grants = await Promise.all(asked);
  expect(grants.map(({ workerId }) => workerId)).toEqual(grants.map((_, i) => i));
});

test("closing lets what was asked before end, can be repeated, and ends everything after", async () => {
  const path = newPath();
  const registry = await openSqlite(path);
  const asked = granted(registry);
  await Promise.all([registry.close(), registry.close()]);
  expect(await asked).toMatchObject({ workerId: 0 });
  await registry.close();
  for (const operation of [registry.ping(), registry.claim(claimRequest()), registry.workers(namespace)]) {
    await expect(operation).rejects.toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      message: expect.stringContaining("was closed by this process") as string,
    });
  }
  expect(await (await openSqlite(path)).workers(namespace)).toHaveLength(1);
});

test("a number that is no integer is refused, and nothing is stored", async () => {
  const registry = await openSqlite(newPath());
  await registry.init({ namespace, layout });
  const broken = [
    registry.claim(claimRequest({ clock: clock.now() + 0.5 })),
    registry.claim(claimRequest({ window: Number.NaN })),
    registry.pin(namespace, 1.5, "half"),
    registry.init({ namespace: "other", layout, maxWindow: 0.5 }),
  ];
  for (const operation of broken) await expect(operation).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await registry.workers(namespace)).toEqual([]);
  expect(await registry.describe("other")).toBeUndefined();
});

test("text that would be SQL is text", async () => {
  const registry = await openSqlite(newPath());
  const host = `x'); DROP TABLE worker; -- "$host"`;
  const { workerId } = await granted(registry, { holder: on(host) });
  expect(await registry.worker(namespace, workerId)).toMatchObject({ holder: { host } });
});

test("each state lists what the rule calls so", async () => {
  const path = newPath();
  const registry = await openSqlite(path);
  await registry.init({ namespace, layout });
  const raw = await openRaw(path);
  const insert = raw.prepare(
    `INSERT INTO worker (namespace_id, worker_id, fence, token, from_ms, until_ms, seen_clock, clean, known_from_ms, pinned)
     VALUES (1, $workerId, 1, $token, 0, $until, 0, $clean, 0, $pinned)`,
  );
  const now = clock.now();
  const expected = new Map<WorkerState, number[]>([["foreign", []]]);
  let workerId = 0;
  for (const token of [null, "a"]) {
    for (const until of [now - 1, now, now + 1]) {
      for (const clean of [0, 1]) {
        for (const pinned of [null, "why"]) {
          insert.run({ workerId, token: token && `${token}${workerId}`, until, clean, pinned });
          const record = {
            until,
            clean: clean === 1,
            token: token ?? undefined,
            pinned: pinned ?? undefined,
          } as Stored;
          const state = stateOf(record, now);
          expected.set(state, [...(expected.get(state) ?? []), workerId++]);
        }
      }
    }
  }
  expect(expected.size).toBe(5);
  for (const [state, workerIds] of expected) {
    const listed = await registry.workers(namespace, { state });
    expect(listed.map(({ workerId }) => workerId)).toEqual(workerIds);
    expect(listed.every((record) => record.state === state)).toBe(true);
  }
});

test("a number that was pinned before it was used is unused again after it is unpinned", async () => {
  const registry = await openSqlite(newPath());
  await registry.init({ namespace, layout });
  for (const workerId of [0, 1, 2, 5]) await registry.pin(namespace, workerId, "not ours");
  expect(await granted(registry)).toMatchObject({ workerId: 3 });
  for (const workerId of [1, 5]) await registry.unpin(namespace, workerId);
  for (const workerId of [1, 4, 5, 6]) expect(await granted(registry, { reuse: "never" })).toMatchObject({ workerId });
});

test("a number that is pinned for a host is found behind a thousand others of that host", async () => {
  const registry = await openSqlite(newPath());
  await registry.init({ namespace, layout });
  const owner = { ip: "192.0.2.7" };
  const pin = (workerId: number) => ({ workerId, reason: "its own", owner });
  await registry.pinAll?.(
    namespace,
    Array.from({ length: 1010 }, (_, i) => pin(i)),
  );
  await registry.pin(namespace, 1020, "its own", owner);
  const holder = { ...on("host"), ip: owner.ip };
  const pool = { first: 1015, last: 1020 };
  expect(await granted(registry, { pool, holder })).toMatchObject({ workerId: 1020 });
});

test("numbers are given out once, in ascending order, however they are wanted", async () => {
  const registry = await openSqlite(newPath());
  const pool = { first: 3, last: 12 };
  for (const workerId of [7, 3, 12, 8, 10]) await granted(registry, { pool, workerId });
  for (const workerId of [4, 5, 6, 9, 11]) expect(await granted(registry, { pool })).toMatchObject({ workerId });
  expect(await registry.claim(claimRequest({ pool }))).toMatchObject({ outcome: "exhausted" });
});

test("a pool that was narrowed, widened or moved finds the numbers that were used under another one", async () => {
  const registry = await openSqlite(newPath());
  const claim = (first: number, last: number, host = "any"): Promise<Grant> => {
    clock.step(1);
    return granted(registry, { pool: { first, last }, holder: on(host), clock: clock.now(), window: 1000 });
  };
  const passed = (): void => clock.step(2000);

  for (let i = 0; i <= 9; i++) expect(await claim(0, 9, `h${i}`)).toMatchObject({ workerId: i });
  passed();
  // Narrowed: nothing is filed under 5-9 yet.
  expect(await claim(5, 9)).toMatchObject({ workerId: 5, fence: 2 });
  expect(await claim(5, 9, "h8")).toMatchObject({ workerId: 8, fence: 2 });
  // Moved, so that it overlaps with both.
  expect(await claim(4, 6)).toMatchObject({ workerId: 4 });
  expect(await claim(4, 6)).toMatchObject({ workerId: 6 });
  expect(await registry.claim(claimRequest({ pool: { first: 4, last: 6 }, clock: clock.now() }))).toMatchObject({
    outcome: "exhausted",
    freeAt: (await registry.worker(namespace, 5))?.until,
  });
  // Widened: first what nobody used, then the oldest of all.
  expect(await claim(0, 10)).toMatchObject({ workerId: 10 });
  expect(await claim(0, 10)).toMatchObject({ workerId: 0 });
  for (const workerId of [1, 2, 3, 7, 9]) expect(await claim(0, 10)).toMatchObject({ workerId });
  passed();
  const ids = new Set<number>();
  for (let i = 0; i <= 10; i++) ids.add((await claim(0, 10, `n${i}`)).workerId);
  expect(ids.size).toBe(11);
});

test("a clock that was set back is noticed through another pool of the same host", async () => {
  const registry = await openSqlite(newPath());
  await granted(registry, { pool: { first: 0, last: 9 }, clock: clock.now() + 4000 });
  const { rollback } = await granted(registry, {
    pool: { first: 5, last: 30 },
    workerId: undefined,
    clock: clock.now(),
  });
  expect(rollback).toBeUndefined();
  const same = await granted(registry, { pool: { first: 0, last: 30 }, clock: clock.now() });
  expect(same.rollback).toBe(4000);
});

test("pruning deletes by the thousand and keeps the last claim of each worker ID", async () => {
  const registry = await openSqlite(newPath());
  const pool = { first: 0, last: 1 };
  for (let i = 0; i < 600; i++) {
    await granted(registry, { pool, workerId: i % 2, clock: clock.now(), window: 10 });
    clock.step(20);
  }
  await expect(registry.prune("nothing", clock.now())).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(await registry.prune(namespace, clock.now() - 600 * 20)).toBe(0);
  expect(await registry.prune(namespace, clock.now())).toBe(598);
  expect(await registry.history(namespace, 0)).toMatchObject([{ fence: 300 }]);
  expect(await registry.history(namespace, 1)).toMatchObject([{ fence: 300 }]);
});
