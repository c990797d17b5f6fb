import { describe, expect, test } from "vitest";
import { checkPrimaries, clusterOf, goesOn, isClusterNode } from "../../src/registries/sql/mysql/cluster.ts";
import { isUnclear, meaningOf } from "../../src/registries/sql/mysql/errors.ts";

const id = "9d115b9f-eae7-11f1-a743-86f60363f25f";
const identity = (changes: number, nodes: string, of = id): string => `galera ${of} ${changes} ${nodes}`;

describe("the identity of a cluster", () => {
  test.each([
    ["a node crashed", identity(2, "aa,bb"), identity(3, "aa"), true],
    ["a node joined", identity(2, "aa"), identity(3, "aa,bb"), true],
    ["one of three was started again", identity(3, "aa,bb,cc"), identity(5, "aa,bb,dd"), true],
    ["more than half are new", identity(3, "aa,bb,cc"), identity(7, "aa,dd,ee"), false],
    ["it was formed anew, by a node that was started again", identity(2, "aa,bb"), identity(3, "dd"), false],
    ["it counts anew, and an old node is in it", identity(4, "aa,bb"), identity(2, "aa,dd"), false],
    ["it has the same count, and another node", identity(2, "aa,bb"), identity(2, "aa,dd"), false],
    ["it has other data", identity(2, "aa,bb"), identity(3, "aa,bb", id.replace("9", "8")), false],
    ["there was one server", "host 3306 1 /var/lib/mysql/", identity(3, "aa"), false],
    ["an operator said so", "restored", identity(3, "aa"), false],
  ])("%s: from %s to %s", (_, stored, seen, is) => {
    expect(goesOn(stored, seen)).toBe(is);
  });

  test("is none where the nodes do not know what they have", () => {
    expect(clusterOf(identity(2, "aa,bb"))).toEqual({ id, changes: 2, nodes: ["aa", "bb"] });
    expect(clusterOf(identity(2, "aa,bb", "00000000-0000-0000-0000-000000000000"))).toBeUndefined();
    expect(clusterOf(`galera ${id} 18446744073709551615 aa`)).toBeUndefined();
  });
});

const refusal = (settings: Record<string, string>, isMaria: boolean): unknown => {
  try {
    checkPrimaries(new Map(Object.entries(settings)), isMaria, "db:3306");
    return undefined;
  } catch (error) {
    return error;
  }
};

test("a group with several primaries is refused, unless it is a cluster of MariaDB", () => {
  const galera = { wsrep_on: "ON", wsrep_provider: "/usr/lib/galera/libgalera_smm.so" };
  expect(isClusterNode(new Map(Object.entries(galera)))).toBe(true);
  expect(
    isClusterNode(
      new Map([
        ["wsrep_on", "ON"],
        ["wsrep_provider", "none"],
      ]),
    ),
  ).toBe(false);
  expect(isClusterNode(new Map([["wsrep_on", "OFF"]]))).toBe(false);
  expect(refusal(galera, true)).toBeUndefined();
  expect(refusal({ group_replication_single_primary_mode: "ON" }, false)).toBeUndefined();
  expect(refusal({ group_replication_single_primary_mode: "OFF" }, false)).toMatchObject({
    code: "CONFIG_INVALID",
    message:
      "MySQL db:3306 is set up to take writes on several servers at once (group_replication_single_primary_mode=OFF), and Snowlease knows no way to tell what such a group forgets; use a group with one primary, or a Galera cluster of MariaDB.",
  });
  expect(refusal(galera, false)).toMatchObject({ message: expect.stringContaining("wsrep_on=ON") as string });
});

test("a commit of a node that was cut off is in doubt, and one that another node was faster than is not", () => {
  const answer = (errno: number): Error => Object.assign(new Error("refused"), { errno, sqlState: "HY000" });
  expect([1180, 3100].map(answer).every(isUnclear)).toBe(true);
  expect([1213, 1047, 3101].map(answer).some(isUnclear)).toBe(false);
  expect([1213, 3101].map((errno) => meaningOf(answer(errno))?.raced)).toEqual([true, true]);
});
