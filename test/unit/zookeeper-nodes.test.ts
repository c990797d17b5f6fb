import { describe, expect, test } from "vitest";
import type { ServerAddress } from "../../src/registries/url.ts";
import { parseAddress } from "../../src/registries/index.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { Nodes, numberOf, placeOf, tokenIn } from "../../src/registries/zookeeper/nodes.ts";
import { readRecord, recordBytes, type StoredNode } from "../../src/registries/zookeeper/records.ts";
import { unusedRecord } from "../../src/rule/pin.ts";
import { storedToken } from "../../src/rule/token.ts";
import { readZooKeeperSettings } from "../../src/registries/zookeeper/settings.ts";

const token = storedToken("0123456789abcdef0123456789abcdef");

describe("the name of an ephemeral node", () => {
  // The server counts with 32 bits and a sign, and goes on at the other end; newer ones may count further.
  test.each([
    "0000000000",
    "0000000123",
    "2147483646",
    "2147483647",
    "-2147483648",
    "-2147483647",
    "-000000001",
    "2147483648",
    "4294967296",
  ])("is read whatever its sequence is: %s", (sequence) => {
    const begin = new Nodes("/snowlease", "orders").live(7, token).split("/").at(-1);
    expect(tokenIn(`${begin}${sequence}`)).toBe(token);
  });

  test.each([
    "",
    "x-1",
    token,
    `${token}-`,
    `${token}-12`,
    `${token.slice(1)}-0000000001`,
    `x${token}-0000000001`,
    `${token}-0000000001/x`,
    `${token}--`,
    `${token}--00000001`,
  ])("is nobody's when it is %j", (name) => {
    expect(tokenIn(name)).toBeUndefined();
  });
});

describe("the nodes of a namespace", () => {
  test("hold at most 1,000 worker IDs below one another", () => {
    const nodes = new Nodes("/ids/snowlease", "orders");
    expect(nodes.state(7)).toBe("/ids/snowlease/orders/state/0/0000000007");
    expect(nodes.state(999)).toBe("/ids/snowlease/orders/state/0/0000000999");
    expect(nodes.state(4_194_303)).toBe("/ids/snowlease/orders/state/4194/0004194303");
    expect(nodes.row(1000, 12)).toBe("/ids/snowlease/orders/history/1/0000001000/0000000012");
  });

  test("name no host as it is, and any host at all", () => {
    const nodes = new Nodes("/snowlease", "orders");
    expect(nodes.host("../a/節點")).toMatch(/^\/snowlease\/orders\/host\/[0-9a-f]{32}$/);
  });

  test("name the place of a worker ID, in the order of the ends of windows", () => {
    const nodes = new Nodes("/snowlease", "orders");
    const record = { ...unusedRecord(4_194_303), until: 1_790_000_000_000 };
    const [idle = ""] = nodes.indexes(record);
    expect(idle).toBe("/snowlease/orders/idle/4194/0001790000000000-0004194303");
    expect(placeOf(idle.split("/").at(-1) ?? "")).toEqual({ workerId: 4_194_303, until: 1_790_000_000_000 });
    expect(["", "x-1", "0001790000000000", "1790000000000-0004194303", "0001790000000000-x"].map(placeOf)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("are numbers by their names", () => {
    expect(["0000000007", "4294967295", "00000000007", "7", "", "-000000007", "00000000x7"].map(numberOf)).toEqual([
      7,
      4_294_967_295,
      undefined,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe("a record", () => {
  const stored = { workerId: 7, fence: 1, token, from: 1, until: 2, seenClock: 3, clean: false, knownFrom: 1 };
  const node = (data: Uint8Array): { data: Uint8Array; version: number; children: number } => ({
    data,
    version: 4,
    children: 0,
  });

  test("comes back as it was, recents byte for byte", () => {
    const recents = { from: 1, bytes: Uint8Array.from({ length: 256 }, (_, i) => i) };
    const kept = readRecord(node(recordBytes({ ...stored, recents })), "/x", 7);
    expect(kept).toMatchObject({ record: { ...stored, recents }, version: 4 });
  });

  describe("that a newer version wrote", () => {
    const decoded = (data: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(data));
    const holder = { host: "vm", ip: "192.0.2.1", pid: 1, instance: "" };
    const whole = { ...stored, holder, checkpoint: { timestamp: 1, sequence: 0 }, releasedAt: 5, clean: true };
    const recents = { from: 1, bytes: "AQ==" };
    const newer = { mood: "x", receipt: { n: 1 }, "": null, pins: [] };
    const json = {
      ...whole,
      ...newer,
      recents: { ...recents, lanes: 4 },
      holder: { ...holder, zone: "b" },
      checkpoint: { ...whole.checkpoint, era: 1 },
    };
    const readNewer = (value: object = json): StoredNode =>
      readRecord(node(new TextEncoder().encode(JSON.stringify(value))), "/x", 7);

    test("is read without the fields that are unknown", () => {
      expect(readNewer().record).toStrictEqual({
        ...whole,
        recents: { from: 1, bytes: Uint8Array.of(1) },
      });
    });

    test("keeps them where it is written again, also in parts that did not change", () => {
      const kept = readNewer();
      expect(decoded(recordBytes({ ...kept.record, until: 9 }, kept))).toEqual({ ...json, until: 9 });
    });

    test("loses those of a part that is replaced or left out, and known fields that are", () => {
      const kept = readNewer();
      const other = { ...holder, host: "other" };
      const after = { ...stored, fence: 2, holder: other, checkpoint: undefined };
      expect(decoded(recordBytes(after, kept))).toEqual({
        ...newer,
        ...stored,
        fence: 2,
        holder: other,
      });
    });

    test("keeps one with any name", () => {
      const named = JSON.parse(`{"__proto__":{"until":7},"constructor":1,"toString":2}`) as object;
      const kept = readNewer({ ...json, ...named });
      const text = new TextDecoder().decode(recordBytes({ ...kept.record, until: 9 }, kept));
      expect(text).toContain('"__proto__":{"until":7}');
      expect(JSON.parse(text)).toMatchObject({ until: 9, constructor: 1, toString: 2 });
    });
  });

  test.each(["", "no JSON", "{}", "7", '{"workerId":7}'])("that is %j is refused, and its node named", (text) => {
    const read = (): unknown =>
      readRecord(node(new TextEncoder().encode(text)), "/snowlease/orders/state/0/0000000007", 7);
    expect(read).toThrow(/\/snowlease\/orders\/state\/0\/0000000007/);
    try {
      read();
    } catch (error) {
      expect(isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")).toBe(true);
    }
  });

  test("with a window that is no whole number is refused", () => {
    for (const wrong of [{ until: Number.NaN }, { until: 1.5 }, { from: 1e300 }, { fence: 2 ** 53 }]) {
      expect(() => readRecord(node(recordBytes({ ...stored, ...wrong })), "/x", 7)).toThrow(/no proper record/);
    }
  });

  test("of another worker ID is refused", () => {
    expect(() => readRecord(node(recordBytes(stored)), "/x", 8)).toThrow(/`\/x` the record of worker 7/);
  });
});

describe("the settings of a ZooKeeper URL", () => {
  const settings = (rest: string): unknown =>
    readZooKeeperSettings(parseAddress(`zookeeper://${rest}`) as ServerAddress);

  test("are read", () => {
    const usual = { sessionTimeout: 10_000, chroot: "", tls: false };
    expect(settings("a")).toEqual(usual);
    expect(settings("a/")).toEqual(usual);
    expect(settings("a:1,b/services/ids?sessionTimeout=4s&tls=true")).toEqual({
      sessionTimeout: 4000,
      chroot: "/services/ids",
      tls: true,
    });
  });

  test.each([
    "a/x/",
    "a//x",
    "a/x/../y",
    "a/.",
    "a?sessionTimeout=0",
    "a?sessionTimeout=1h",
    "a?sessionTimeout=x",
    "a?tls=1",
  ])("are refused: %s", (rest) => {
    expect(() => settings(rest)).toThrow(/correct the registry URL/);
  });

  test("with half a login are refused, and it is not shown", () => {
    for (const rest of ["s3cret@a", ":s3cret@a"]) {
      expect(() => settings(rest)).toThrow(/USER:PASSWORD/);
      expect(() => settings(rest)).not.toThrow(/s3cret/);
    }
  });
});
