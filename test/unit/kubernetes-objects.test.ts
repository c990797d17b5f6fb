import { describe, expect, test } from "vitest";
import { hintsObject, hintsOf, readHints } from "../../src/registries/kubernetes/hints.ts";
import {
  label,
  type LeaseContent,
  LeaseNames,
  type LeaseObject,
  microTime,
} from "../../src/registries/kubernetes/objects.ts";
import { objectOf, readRecord, readRows, recordObject } from "../../src/registries/kubernetes/records.ts";
import type { HistoryRow } from "../../src/rule/registry.ts";
import type { Stored } from "../../src/rule/window.ts";

const holder = { host: "node-1", ip: "192.0.2.1", pid: 7, instance: "" };
const names = new LeaseNames("orders");

function recordOf(workerId: number, fields: Partial<Stored> = {}): Stored {
  const window = { from: 1000, until: 61_000, knownFrom: 1000, seenClock: 1000 };
  return { workerId, fence: 1, token: "a".repeat(32), clean: false, holder, claimedAt: 1000, ...window, ...fields };
}

/** As the API server answers it. */
function answered(object: LeaseContent): LeaseObject {
  return { ...object, metadata: { ...object.metadata, resourceVersion: "1" } };
}

describe("the objects of a namespace", () => {
  test("never have the name of an object of another namespace", () => {
    const namespaces = ["a", "a_", "a__", "a_7", "a_worker", "a_worker_7", "a_facts", "a_hints", "a_worker_7_facts"];
    const all = namespaces.map((namespace) => new LeaseNames(namespace));
    const made = all.flatMap((each) => [each.facts, each.hints, each.worker(7), each.worker(77)]);
    expect(new Set(made).size).toBe(made.length);
    for (const name of made) expect(name).toMatch(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/);
    const labels = all.map((each) => each.labels[label.namespace] ?? "");
    expect(new Set(labels).size).toBe(labels.length);
    for (const value of labels) expect(value).toMatch(/^[a-z0-9]([\w.-]*[a-z0-9])?$/);
  });

  test("show people the holder, and count the claims", () => {
    const first = recordObject(names, recordOf(7), undefined, undefined);
    expect(first.spec).toEqual({
      holderIdentity: "node-1/7",
      acquireTime: "1970-01-01T00:00:01.000000Z",
      renewTime: "1970-01-01T00:00:01.000000Z",
      leaseDurationSeconds: 60,
      leaseTransitions: 1,
    });
    const named = recordObject(
      names,
      recordOf(7, { holder: { ...holder, instance: "orders-x7" } }),
      undefined,
      undefined,
    );
    expect(named.spec).toMatchObject({ holderIdentity: "orders-x7" });
    const before = readRecord(answered(first), 7);
    const released = recordObject(names, recordOf(7, { token: undefined, clean: true }), before, undefined);
    expect(released.spec).toEqual({ leaseTransitions: 1 });
    expect(released.metadata.labels[label.token]).toBeUndefined();
    const last = readRecord(answered(released), 7);
    const again = recordObject(names, recordOf(7, { token: "b".repeat(32) }), last, undefined);
    expect(again.spec).toMatchObject({ leaseTransitions: 2 });
  });

  test("keep what another program or a later version added", () => {
    const object = answered(recordObject(names, recordOf(7), undefined, undefined));
    const record = JSON.parse(object.metadata.annotations["snowlease/record"] ?? "") as object;
    const foreign = {
      ...object,
      metadata: {
        ...object.metadata,
        labels: { ...object.metadata.labels, team: "ids" },
        annotations: { "snowlease/record": JSON.stringify({ ...record, later: 1 }), note: "mine" },
      },
      spec: { ...object.spec, strategy: "OldestEmulationVersion" },
    };
    const next = recordObject(names, recordOf(7, { until: 90_000 }), readRecord(foreign, 7), undefined);
    expect(next.metadata.labels).toMatchObject({ team: "ids" });
    expect(next.metadata.annotations["note"]).toBe("mine");
    expect(JSON.parse(next.metadata.annotations["snowlease/record"] ?? "")).toMatchObject({ later: 1, until: 90_000 });
    expect(next.spec).toMatchObject({ strategy: "OldestEmulationVersion" });
  });

  test("keep the last 32 claims that have ended, the newest first", () => {
    let object = answered(recordObject(names, recordOf(7), undefined, undefined));
    for (let fence = 1; fence <= 40; fence++) {
      const row: HistoryRow = {
        workerId: 7,
        fence,
        from: 1,
        until: 2,
        holder,
        claimedAt: 1,
        endedAt: 2,
        end: "released",
      };
      object = answered(recordObject(names, recordOf(7, { fence }), readRecord(object, 7), row));
    }
    const rows = readRows({ object });
    expect(rows).toHaveLength(32);
    expect(rows.map(({ fence }) => fence).slice(0, 2)).toEqual([40, 39]);
  });

  test("leave out recents that would make a list of the pool too long", () => {
    const bytes = new Uint8Array(5000);
    const object = recordObject(names, recordOf(7, { clean: true, recents: { from: 1, bytes } }), undefined, undefined);
    expect(readRecord(answered(object), 7).record).toMatchObject({ clean: true, recents: undefined });
  });
});

describe("hints", () => {
  test("are read as they were written, to the second", () => {
    const at = 1_700_000_000_500;
    const records = [
      recordOf(0, { until: at - 1 }),
      recordOf(5, { until: at + 1 }),
      recordOf(6, { until: at + 90_000 }),
      recordOf(4_000_000, { until: at + 90_000, clean: true }),
      recordOf(4_000_001, { pinned: "spare" }),
    ];
    const read = readHints(hintsObject(names, hintsOf(records, at), undefined));
    expect(read?.at).toBe(at);
    expect([...(read?.ends ?? [])]).toEqual([
      [0, at],
      [5, at + 1000],
      [6, at + 90_000],
      [4_000_000, at + 90_000],
      [4_000_001, Infinity],
    ]);
  });

  test.each(["", "{", "{}", '{"at":1,"ends":2}'])("of %j are none", (text) => {
    const object = objectOf(names.hints, names.labels, undefined, {});
    const { metadata } = object;
    expect(
      readHints({ ...object, metadata: { ...metadata, annotations: { "snowlease/hints": text } } }),
    ).toBeUndefined();
  });

  test("of a pool of 4,096 numbers fit an annotation", () => {
    const records = Array.from({ length: 4096 }, (_, i) => recordOf(i, { until: 3_600_000 }));
    const { metadata } = hintsObject(names, hintsOf(records, 0), undefined);
    expect(metadata.annotations["snowlease/hints"]?.length).toBeLessThan(20_000);
  });
});

test("a time of a Lease has six digits behind the second", () => {
  expect(microTime(1_700_000_000_123)).toBe("2023-11-14T22:13:20.123000Z");
});
