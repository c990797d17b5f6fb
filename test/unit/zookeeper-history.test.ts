import { expect, test } from "vitest";
import type { HistoryRow } from "../../src/rule/registry.ts";
import { listClaims, pruneClaims } from "../../src/registries/zookeeper/history.ts";
import { Nodes } from "../../src/registries/zookeeper/nodes.ts";
import { jsonBytes } from "../../src/registries/zookeeper/records.ts";
import type { Exchange, ZooKeeperSession } from "../../src/registries/zookeeper/session.ts";

const nodes = new Nodes("/snowlease", "orders");
const jump = 1_790_000_000_000;
const holder = { host: "a", ip: "10.0.0.1", pid: 1, instance: "" };
const record = { workerId: 7, fence: jump + 150, from: 0, until: 0, seenClock: 0, clean: true, knownFrom: 0 };

/** Rows of these fences, each ended this many ms after the last one, and the calls that reading them took. */
function rowsOf(fences: readonly number[]): { exchange: Exchange; exchanges: () => number } {
  const rows = new Map(
    fences.map((fence, i) => {
      const times = { from: i * 10, until: i * 10 + 10, claimedAt: i * 10, endedAt: i * 10 + 10 };
      const row: HistoryRow = { workerId: 7, fence, ...times, holder, end: "released" };
      return [nodes.row(7, fence), { data: jsonBytes(row), version: 0 }];
    }),
  );
  let exchanges = 0;
  const session = {
    get: async (path: string) => rows.get(path),
    list: async () => [...rows.keys()].map((path) => path.split("/").at(-1) ?? ""),
    remove: async (path: string) => rows.delete(path),
  } as unknown as ZooKeeperSession;
  const exchange: Exchange = async (calls) => {
    exchanges++;
    return calls(session);
  };
  return { exchange, exchanges: () => exchanges };
}

const list = async (exchange: Exchange): Promise<number[]> =>
  (await listClaims(exchange, nodes, record, {})).map(({ fence }) => fence);

test("the history goes on behind a fence that jumped, in a few round trips", async () => {
  const fences = [1, 2, 3, jump + 1, jump + 149, jump + 150];
  const { exchange, exchanges } = rowsOf(fences);
  expect(await list(exchange)).toEqual(fences);
  expect(exchanges()).toBeLessThanOrEqual(5);
});

test("old rows are deleted behind a fence that jumped, too", async () => {
  const { exchange } = rowsOf([1, 2, 3, jump + 1, jump + 149, jump + 150]);
  expect(await pruneClaims(exchange, nodes, record, 30)).toBe(2);
  expect(await list(exchange)).toEqual([3, jump + 1, jump + 149, jump + 150]);
});
