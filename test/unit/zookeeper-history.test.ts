import { expect, test } from "vitest";
import type { HistoryRow } from "../../src/rule/registry.ts";
import type { ZooKeeperConnection } from "../../src/registries/zookeeper/connection.ts";
import { listClaims, pruneClaims } from "../../src/registries/zookeeper/history.ts";
import { nodesOf } from "../../src/registries/zookeeper/nodes.ts";
import { rowBytes } from "../../src/registries/zookeeper/records.ts";
import type { ZooKeeperSession } from "../../src/registries/zookeeper/session.ts";

const nodes = nodesOf("/snowlease", "orders");
const jump = 1_790_000_000_000;
const holder = { host: "a", ip: "10.0.0.1", pid: 1, instance: "" };
const record = { workerId: 7, fence: jump + 150, from: 0, until: 0, seenClock: 0, clean: true, knownFrom: 0 };

/** Rows of these fences, each of which ended that many ms after the one before, and the calls that reading them took. */
function rowsOf(fences: readonly number[]): { connection: ZooKeeperConnection; exchanges: () => number } {
  const rows = new Map(
    fences.map((fence, i) => {
      const times = { from: i * 10, until: i * 10 + 10, claimedAt: i * 10, endedAt: i * 10 + 10 };
      const row: HistoryRow = { workerId: 7, fence, ...times, holder, end: "released" };
      return [nodes.row(7, fence), { data: rowBytes(row), version: 0 }];
    }),
  );
  let exchanges = 0;
  const session = {
    get: async (path: string) => rows.get(path),
    list: async () => [...rows.keys()].map((path) => path.split("/").at(-1) ?? ""),
    remove: async (path: string) => rows.delete(path),
  } as unknown as ZooKeeperSession;
  const exchange: ZooKeeperConnection["exchange"] = async (_, calls) => {
    exchanges++;
    return calls(session);
  };
  return { connection: { exchange } as ZooKeeperConnection, exchanges: () => exchanges };
}

const list = async (connection: ZooKeeperConnection): Promise<number[]> =>
  (await listClaims(connection, 0, nodes, record, {})).map(({ fence }) => fence);

test("the history goes on behind a fence that jumped, in a few round trips", async () => {
  const fences = [1, 2, 3, jump + 1, jump + 149, jump + 150];
  const { connection, exchanges } = rowsOf(fences);
  expect(await list(connection)).toEqual(fences);
  expect(exchanges()).toBeLessThanOrEqual(5);
});

test("old rows are deleted behind a fence that jumped, too", async () => {
  const { connection } = rowsOf([1, 2, 3, jump + 1, jump + 149, jump + 150]);
  expect(await pruneClaims(connection, 0, nodes, record, 30)).toBe(2);
  expect(await list(connection)).toEqual([3, jump + 1, jump + 149, jump + 150]);
});
