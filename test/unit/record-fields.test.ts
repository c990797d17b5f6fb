import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { read } from "../../src/api/workers.ts";
import { annotation, LeaseNames } from "../../src/registries/kubernetes/objects.ts";
import { recordObject } from "../../src/registries/kubernetes/records.ts";
import { recordText } from "../../src/registries/etcd/records.ts";
import { recordBytes } from "../../src/registries/zookeeper/records.ts";
import type { HistoryRow } from "../../src/rule/registry.ts";
import type { Stored } from "../../src/rule/window.ts";

/** The names under which a field of the port is kept: columns of a table, fields of Redis, of a node and of the JSON over HTTP. */
interface Names {
  readonly columns: readonly string[];
  readonly lua: readonly string[];
  readonly node: readonly string[];
  /** None: it never leaves the registry. */
  readonly json: readonly string[];
}

const labels = ["host", "ip", "pid", "instance"];

const fields: Record<keyof Stored, Names> = {
  workerId: { columns: ["worker_id"], lua: ["workerId"], node: ["workerId"], json: ["workerId"] },
  fence: { columns: ["fence"], lua: ["fence"], node: ["fence"], json: ["fence"] },
  // Redis keeps a token as the name of a key.
  token: { columns: ["token"], lua: [], node: ["token"], json: [] },
  from: { columns: ["from_ms"], lua: ["from"], node: ["from"], json: ["from"] },
  until: { columns: ["until_ms"], lua: ["until"], node: ["until"], json: ["until"] },
  seenClock: { columns: ["seen_clock"], lua: ["seenClock"], node: ["seenClock"], json: ["seenClock"] },
  clean: { columns: ["clean"], lua: ["clean"], node: ["clean"], json: ["clean"] },
  knownFrom: { columns: ["known_from_ms"], lua: ["knownFrom"], node: ["knownFrom"], json: [] },
  // The tables of a server and Redis have a row of a claim from its begin, which shows that.
  began: { columns: [], lua: [], node: ["began"], json: [] },
  // The bytes of Redis lie in a key of their own.
  recents: {
    columns: ["recents_from", "recents"],
    lua: ["recentFrom"],
    node: ["recents"],
    json: ["recentFrom", "recent"],
  },
  checkpoint: {
    columns: ["checkpoint_timestamp", "checkpoint_sequence"],
    lua: ["lastTimestamp", "lastSequence"],
    node: ["checkpoint"],
    json: ["lastTimestamp", "lastSequence"],
  },
  holder: { columns: labels, lua: labels, node: ["holder"], json: labels },
  claimedAt: { columns: ["claimed_at"], lua: ["claimedAt"], node: ["claimedAt"], json: ["claimedAt"] },
  releasedAt: { columns: ["released_at"], lua: ["releasedAt"], node: ["releasedAt"], json: ["releasedAt"] },
  pinned: { columns: ["pinned"], lua: ["pinned"], node: ["pinned"], json: ["pinned"] },
  owner: { columns: ["owner"], lua: ["owner"], node: ["owner"], json: ["owner"] },
  era: { columns: ["era"], lua: ["era"], node: ["era"], json: [] },
  renewals: { columns: ["renewals"], lua: ["renewals"], node: ["renewals"], json: [] },
  turn: { columns: ["turn"], lua: ["turn"], node: ["turn"], json: [] },
};

const rowColumns: Record<keyof HistoryRow, readonly string[]> = {
  workerId: ["worker_id"],
  fence: ["fence"],
  from: ["from_ms"],
  until: ["until_ms"],
  continuedFrom: ["continued_from"],
  holder: labels,
  claimedAt: ["claimed_at"],
  endedAt: ["ended_at"],
  end: ["ended_by"],
};

/** The columns of a table, as its DDL declares them. */
function columnsOf(store: string, table: string): readonly string[] {
  const ddl = readFileSync(`sql/${store}/schema.sql`, "utf8");
  const [, body = ""] = new RegExp(`CREATE TABLE (?:IF NOT EXISTS )?${table} \\(\\n(.*?)\\n\\)`, "s").exec(ddl) ?? [];
  return [...body.matchAll(/^ {2}([a-z_]+) /gm)].map(([, name = ""]) => name);
}

function namesOf(form: keyof Names): readonly string[] {
  return Object.values(fields).flatMap((names) => names[form]);
}

const sorted = (names: readonly string[]): readonly string[] => names.toSorted();

describe("the fields of a record", () => {
  test("are the columns of sqlite, which adds the namespace and the begin of a claim", () => {
    expect(sorted(columnsOf("sqlite", "worker"))).toEqual(sorted([...namesOf("columns"), "namespace_id", "began_ms"]));
  });

  // The indexes list an owner's record under its address: the column `filed_under`.
  test.each(["mysql", "postgres", "oracle"])(
    "are the columns of %s, which adds version, place and the begin of a claim",
    (store) => {
      const kept = namesOf("columns").filter((name) => name !== "owner");
      expect(sorted(columnsOf(store, "\\{window\\}"))).toEqual(sorted([...kept, "version", "filed_under", "began_ms"]));
    },
  );

  test("are those that the scripts of Redis know, which add their own", () => {
    const script = readFileSync("sql/redis/includes/records.lua", "utf8");
    const [, table = ""] = /^local fieldTypes = \{\n(.*?)^\}/ms.exec(script) ?? [];
    const names = [...table.matchAll(/(?:\['(\w+)'\]|\b(\w+)) = '/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
    const own = ["process", "continuedFrom", "vacated", "ended", "reopened", "repeated"];
    expect(sorted(names)).toEqual(sorted([...namesOf("lua"), ...own]));
  });

  test("are those of a node of ZooKeeper, a key of etcd and a Lease object", () => {
    const record: Required<Stored> = {
      workerId: 7,
      fence: 1,
      token: "0".repeat(32),
      from: 1,
      until: 2,
      seenClock: 1,
      clean: true,
      knownFrom: 1,
      began: 1,
      recents: { from: 1, bytes: new Uint8Array() },
      checkpoint: { timestamp: 1, sequence: 0 },
      holder: { host: "vm", ip: "192.0.2.1", pid: 1, instance: "" },
      claimedAt: 1,
      releasedAt: 2,
      pinned: "why",
      owner: "192.0.2.1",
      era: "1-0",
      renewals: 1,
      turn: "0".repeat(32),
    };
    const node = JSON.parse(new TextDecoder().decode(recordBytes(record))) as object;
    expect(sorted(Object.keys(node))).toEqual(sorted(namesOf("node")));
    const value = JSON.parse(recordText(record, undefined)) as object;
    expect(sorted(Object.keys(value))).toEqual(sorted(namesOf("node")));
    const { metadata } = recordObject(new LeaseNames("orders"), record, undefined, undefined);
    const noted = JSON.parse(metadata.annotations[annotation.record] ?? "") as object;
    expect(sorted(Object.keys(noted))).toEqual(sorted(namesOf("node")));
  });

  test("are those of the JSON over HTTP, which adds state and mark, and shows no secret", () => {
    const { properties = {} } = z.toJSONSchema(read.answer as z.ZodType, { io: "input" });
    expect(sorted(Object.keys(properties))).toEqual(sorted([...namesOf("json"), "state", "marked"]));
  });
});

test.each([
  ["sqlite", "history", ["namespace_id", "newest"]],
  ["mysql", "\\{history\\}", ["newest"]],
  ["postgres", "\\{history\\}", ["newest"]],
  ["oracle", "\\{history\\}", ["newest"]],
])("the fields of a claim in the history are the columns of %s", (store, table, own) => {
  expect(sorted(columnsOf(store, table))).toEqual(sorted([...Object.values(rowColumns).flat(), ...own]));
});
