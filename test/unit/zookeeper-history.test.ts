import { expect, test } from "vitest";
import type { HistoryRow } from "../../src/rule/registry.ts";
import { unusedRecord } from "../../src/rule/pin.ts";
import { pruneRows } from "../../src/registries/zookeeper/history.ts";
import { Nodes } from "../../src/registries/zookeeper/nodes.ts";
import { ZooKeeperReader } from "../../src/registries/zookeeper/reader.ts";
import { jsonBytes, recordBytes } from "../../src/registries/zookeeper/records.ts";
import type { ZooKeeperSession } from "../../src/registries/zookeeper/session.ts";

const nodes = new Nodes("/snowlease", "orders");
const jump = 1_790_000_000_000;
const holder = { host: "a", ip: "10.0.0.1", pid: 1, instance: "" };
const record = { ...unusedRecord(7), fence: jump + 150, clean: true };

/** Rows of these fences, each of which ended that many ms after the one before, and the lists that reading them took. */
async function rowsOf(
  fences: readonly number[],
): Promise<{ session: ZooKeeperSession; reader: ZooKeeperReader; lists: () => number }> {
  const rows = new Map(
    fences.map((fence, i) => {
      const times = { from: i * 10, until: i * 10 + 10, claimedAt: i * 10, endedAt: i * 10 + 10 };
      const row: HistoryRow = { workerId: 7, fence, ...times, holder, end: "released" };
      return [nodes.row(7, fence), { data: jsonBytes(row), version: 0, children: 0 }];
    }),
  );
  const state = { data: recordBytes(record), version: 0, children: 0 };
  let lists = 0;
  const session = {
    get: async (path: string) => (path === nodes.state(7) ? state : rows.get(path)),
    list: async () => {
      lists++;
      return [...rows.keys()].map((path) => path.split("/").at(-1) ?? "");
    },
    remove: async (path: string) => rows.delete(path),
  } as unknown as ZooKeeperSession;
  const reader = new ZooKeeperReader(nodes, {
    kind: "read",
    races: 0,
    spread: 1,
    owns: () => false,
    touch: async () => 0,
  });
  await reader.begin(session);
  return { session, reader, lists: () => lists };
}

async function list(reader: ZooKeeperReader): Promise<number[]> {
  const found: number[] = [];
  for (let next: number | undefined = Infinity; next !== undefined;) {
    const part = await reader.ended(7, next, 1000);
    found.push(...part.rows.map(({ fence }) => fence));
    next = part.next;
  }
  return found;
}

test("the history goes on behind a fence that jumped, with few lists", async () => {
  const fences = [1, 2, 3, jump + 1, jump + 149, jump + 150];
  const { reader, lists } = await rowsOf(fences);
  expect(await list(reader)).toEqual(fences.toReversed());
  expect(lists()).toBeLessThanOrEqual(2);
});

test("old rows are deleted behind a fence that jumped, too", async () => {
  const { session, reader } = await rowsOf([1, 2, 3, jump + 1, jump + 149, jump + 150]);
  expect(await pruneRows((calls) => calls(session), reader, nodes, { record, before: 30 })).toBe(2);
  expect(await list(reader)).toEqual([jump + 150, jump + 149, jump + 1, 3]);
});
