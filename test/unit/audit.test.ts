import { fc } from "../support/fast-check.ts";
import { describe, expect, test } from "vitest";
import { defaultLayout, Layout, layouts } from "../../src/id/layout.ts";
import type { HistoryRow, Registry } from "../../src/rule/registry.ts";
import { audit, type AuditOptions, type AuditFinding } from "../../src/ops/audit/audit.ts";
import { explain } from "../../src/ops/explain.ts";
import type { IdInput } from "../../src/ops/audit/id-lines.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";

const options: AuditOptions = { format: "decimal", layout: defaultLayout, limit: 100 };

function source(name: string, text: string, size = 1000): IdInput {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  return { name, chunks: chunks() };
}

const ofKind = (findings: readonly AuditFinding[], kind: AuditFinding["kind"]): AuditFinding[] =>
  findings.filter((finding) => finding.kind === kind);

describe("duplicates", () => {
  test("are found, with how often and where, across sources", async () => {
    const found = await audit([source("a", "5\n7\n5\n"), source("b", "\n5\n8\n7")], options);
    expect(found).toEqual({
      ids: 6,
      duplicates: 2,
      outside: undefined,
      foreign: undefined,
      pinned: undefined,
      notes: [],
      beyond: 0,
      invalid: 0,
      findings: [
        {
          kind: "duplicate",
          id: 5n,
          times: 3,
          places: [
            { source: "a", line: 1 },
            { source: "a", line: 3 },
            { source: "b", line: 2 },
          ],
        },
        {
          kind: "duplicate",
          id: 7n,
          times: 2,
          places: [
            { source: "a", line: 2 },
            { source: "b", line: 4 },
          ],
        },
      ],
    });
  });

  test("are those that a Set finds", async () => {
    const anyId = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.bigInt({ min: 0n, max: 40n }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(anyId, { maxLength: 60 }), { maxLength: 4 }), async (lists) => {
        const seen = new Set<bigint>();
        const twice = new Set<bigint>();
        for (const id of lists.flat()) (seen.has(id) ? twice : seen).add(id);
        const sources = lists.map((ids, i) => source(`${i}`, ids.map((id) => `${id}\n`).join(""), 37));
        const { ids, duplicates, findings } = await audit(sources, { ...options, limit: 1000 });
        expect({ ids, duplicates }).toEqual({ ids: lists.flat().length, duplicates: twice.size });
        const inOrder = [...twice].toSorted((a, b) => (a < b ? -1 : 1));
        expect(findings.map((finding) => "id" in finding && finding.id)).toEqual(inOrder);
        for (const { id, places, times = 0 } of findings as (AuditFinding & { id: bigint; times: number })[]) {
          expect(times).toBe(lists.flat().filter((other) => other === id).length);
          expect(places).toHaveLength(Math.min(times, 5));
          for (const { source, line } of places) expect(lists[Number(source)]?.[line - 1]).toBe(id);
        }
      }),
    );
  });

  test("are found among more IDs than memory is meant to hold, far apart", async () => {
    const ids = Array.from({ length: 50_000 }, (_, i) => BigInt((i * 7919) % 49_999));
    const found = await audit([source("a", ids.join("\n"), 65_536)], { ...options, runLength: 4096 });
    expect(found).toMatchObject({ ids: 50_000, duplicates: 1 });
    const places = [1, 50_000].map((line) => ({ source: "a", line }));
    expect(found.findings).toEqual([{ kind: "duplicate", id: 0n, times: 2, places }]);
  });

  test("one ID a hundred thousand times is one duplicate", async () => {
    const found = await audit([source("a", "7\n".repeat(100_000), 65_536)], { ...options, runLength: 4096 });
    expect(found).toMatchObject({ duplicates: 1, findings: [{ times: 100_000 }] });
    expect(found.findings[0]?.places.map(({ line }) => line)).toEqual([1, 2, 3, 4, 5]);
  });

  test("are counted beyond what is listed", async () => {
    const text = Array.from({ length: 20 }, (_, i) => `${i}\n${i}\nx\n`).join("");
    for (const limit of [0, 3]) {
      const found = await audit([source("a", text)], { ...options, limit });
      expect(found).toMatchObject({ ids: 40, duplicates: 20, invalid: 20 });
      expect(ofKind(found.findings, "duplicate")).toHaveLength(limit);
      expect(ofKind(found.findings, "invalid")).toHaveLength(limit);
    }
  });
});

test("lines without an ID, and IDs beyond the layout, are told by their line", async () => {
  const found = await audit([source("a", "1\n2\n"), source("b", `3\nx\n${2n ** 53n}\n`)], {
    ...options,
    layout: layouts.safe53,
  });
  expect(found).toMatchObject({ ids: 3, duplicates: 0, beyond: 1, invalid: 1 });
  expect(found.findings).toMatchObject([
    { kind: "invalid", why: expect.stringContaining("`x`") as string, places: [{ source: "b", line: 2 }] },
    { kind: "beyond", id: 2n ** 53n, places: [{ source: "b", line: 3 }] },
  ]);
});

test.each([
  ["little-endian", Buffer.from("\uFEFF1\r\n2\r\n", "utf16le")],
  ["big-endian", Buffer.from("\uFEFF1\r\n2\r\n", "utf16le").swap16()],
])("a source in UTF-16, %s, is refused as a whole", async (_, bytes) => {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  await expect(audit([{ name: "ids.txt", chunks: chunks() }], options)).rejects.toThrow(
    "IDs cannot be read from `ids.txt` (string): it is UTF-16; save it as UTF-8.",
  );
});

test("a source that fails half-way is named", async () => {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("1\n2\n");
    throw new Error("EIO: the disk is gone");
  }
  await expect(audit([{ name: "ids.txt", chunks: chunks() }], options)).rejects.toThrow(
    "IDs cannot be read from `ids.txt` (string): EIO: the disk is gone; name a file of IDs.",
  );
});

const namespace = "orders";

describe("windows", () => {
  test("of the history say whose an ID can be, as explain does", async () => {
    const clock = fakeClock();
    // Ticks of 10 ms, and windows that begin and end amid them.
    const layout = Layout.parse("timestamp:41,worker:4,sequence:8@0/10");
    const registry = memoryRegistry({ clock });
    const wish = { namespace, layout: layout.fingerprint, window: 1003, pool: { first: 3, last: 4 } };
    const start = clock.now();
    for (const lifetime of [317, 5, 1400, 33]) {
      const request = claimRequest({ ...wish, clock: clock.now() });
      const grant = await granted(registry, request);
      await clock.advance(lifetime);
      const used = { until: Math.min(clock.now(), grant.until) };
      await registry.release({ ...keyOf(request, grant), clock: clock.now(), used });
      await clock.advance(29);
    }
    await granted(registry, claimRequest({ ...wish, clock: clock.now() }));

    const ids: bigint[] = [];
    for (let timestamp = start - 500; timestamp < clock.now() + 2000; timestamp += 10) {
      for (const workerId of [3, 4, 5]) ids.push(layout.compose({ timestamp, workerId, sequence: 1 }));
    }
    const nobodys: bigint[] = [];
    for (const id of ids) {
      const { holders } = await explain(registry, namespace, String(id), { format: "decimal" });
      if (holders.length === 0) nobodys.push(id);
    }
    const settings = { ...options, layout, windows: { registry, namespace }, limit: ids.length };
    const found = await audit([source("a", ids.toReversed().join("\n"))], settings);
    expect(nobodys.length).toBeGreaterThan(300);
    expect(nobodys.length).toBeLessThan(ids.length - 100);
    expect(found).toMatchObject({ ids: ids.length, duplicates: 0, outside: nobodys.length });
    expect(found.findings.map((finding) => "id" in finding && finding.id)).toEqual(nobodys);
    expect(found.findings[0]).toMatchObject({ kind: "outside", ...partsOf(layout, nobodys[0] ?? 0n) });
  });

  test("an ID that is outside twice is a duplicate, and counted as outside once", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    await granted(registry, claimRequest({ namespace, clock: clock.now() }));
    const found = await audit([source("a", "7\n7\n")], { ...options, windows: { registry, namespace } });
    expect(found).toMatchObject({ ids: 2, duplicates: 1, outside: 1 });
    expect(found.findings).toMatchObject([{ kind: "duplicate" }, { kind: "outside", workerId: 0 }]);
  });

  test("are missing where somebody holds no lease: those IDs are counted apart, number by number", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const claimed = async (ip: string): Promise<{ from: number; until: number; workerId: number }> => {
      const holder = { host: "a", ip, pid: 1, instance: "" };
      return granted(registry, claimRequest({ namespace, holder, clock: clock.now() }));
    };
    await claimed("");
    for (const workerId of [7, 8, 9])
      await registry.pin(namespace, workerId, `of host ${workerId}`, { ip: `10.0.0.${workerId}` });
    const before = clock.now();
    await clock.advance(60_000);
    const { from, until, workerId } = await claimed("10.0.0.7");
    expect(workerId).toBe(7);
    await clock.advance(60_000);
    const foreign = { host: "java-1", ip: "10.0.0.9", pid: 4711, instance: "" };
    const asked: number[] = [];
    const watched: Registry = {
      ...registry,
      async worker(namespace, workerId) {
        asked.push(workerId);
        const record = await registry.worker(namespace, workerId);
        return record && workerId === 9 ? { ...record, state: "foreign", holder: foreign } : record;
      },
    };
    const made: [workerId: number, timestamp: number][] = [
      // Before its host moved, in its window, and behind that.
      [7, before],
      [7, from - 1],
      [7, from],
      [7, until],
      [8, before],
      [9, before],
      [9, clock.now()],
      // No clock shows that yet, whoever it is.
      [8, clock.now() + 20_000],
      [9, clock.now() + 20_000],
      [10, before],
    ];
    const ids = made.map(([workerId, timestamp]) => defaultLayout.compose({ workerId, timestamp, sequence: 0 }));
    const text = [...ids, ids[4], ids[5]].join("\n");
    const found = await audit([source("a", text)], { ...options, windows: { registry: watched, namespace } });
    expect(found).toMatchObject({ ids: 12, duplicates: 2, outside: 4, foreign: 2, pinned: 3 });
    const outside = ofKind(found.findings, "outside").map((finding) => "id" in finding && finding.id);
    expect(new Set(outside)).toEqual(new Set([ids[3], ids[7], ids[8], ids[9]]));
    expect(found.notes).toEqual([
      { kind: "pinned", workerId: 7, ids: 2, reason: "of host 7" },
      { kind: "pinned", workerId: 8, ids: 1, reason: "of host 8" },
      { kind: "foreign", workerId: 9, ids: 2, by: foreign },
    ]);
    expect(asked.toSorted((a, b) => a - b)).toEqual([7, 8, 9, 10]);
  });

  test("are read once for each worker ID, page by page", async () => {
    const rows = Array.from({ length: 25_000 }, (_, i): HistoryRow => {
      const from = defaultLayout.epoch + 10 + i * 10;
      return {
        ...row,
        workerId: 7,
        fence: i + 1,
        from,
        until: from + 5,
        continuedFrom: i % 3 === 0 ? from - 12 : from,
      };
    });
    const asked: number[] = [];
    const registry: Registry = {
      ...memoryRegistry(),
      async history(_, workerId, { from = -Infinity, until = Infinity, limit = 1000 } = {}) {
        asked.push(workerId);
        const meets = (row: HistoryRow): boolean => row.until > from && (row.continuedFrom ?? row.from) < until;
        return workerId === 7 ? rows.filter(meets).slice(-limit) : [];
      },
    };
    const times = rows.flatMap(({ from, until, continuedFrom = from }) => [continuedFrom, from, until - 1, until]);
    const isHeld = (time: number): boolean =>
      rows
        .slice(Math.max(0, (time - defaultLayout.epoch) / 10 - 4), (time - defaultLayout.epoch) / 10 + 4)
        .some(({ from, until, continuedFrom = from }) => continuedFrom <= time && time < until);
    const different = [...new Set(times.filter((time) => time >= defaultLayout.epoch))];
    const ids = different.map((timestamp) => defaultLayout.compose({ timestamp, workerId: 7, sequence: 0 }));
    const text = [...ids, 1n << 12n].join("\n");
    const found = await audit([source("a", text, 65_536)], { ...options, windows: { registry, namespace } });
    expect(found.outside).toBe(different.filter((time) => !isHeld(time)).length + 1);
    expect(asked.filter((id) => id === 7)).toHaveLength(3);
    expect(asked.filter((id) => id === 1)).toHaveLength(1);
  });

  test("ask for a time where the timestamp wraps, before anything is read", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const settings = { ...options, layout: layouts.scene, windows: { registry, namespace } };
    const untouched: IdInput = { name: "a", chunks: { [Symbol.asyncIterator]: () => expect.unreachable() } };
    await expect(audit([untouched], settings)).rejects.toThrow("tell a time near");
    const at = clock.now();
    const wish = { namespace, layout: layouts.scene.fingerprint, pool: { first: 7, last: 7 } };
    const { until } = await granted(registry, claimRequest({ ...wish, clock: at }));
    const ids = [at + 1000, until].map((timestamp) => layouts.scene.compose({ timestamp, workerId: 7, sequence: 0 }));
    expect(await audit([source("a", ids.join("\n"))], { ...settings, at })).toMatchObject({
      outside: 1,
      findings: [{ id: ids[1], timestamp: until }],
    });
  });
});

const row = { holder: { host: "a", ip: "", pid: 1, instance: "" }, claimedAt: 0, end: "released" as const };

function partsOf(layout: Layout, id: bigint): object {
  const { workerId, timestamp } = layout.decompose(id);
  return { workerId, timestamp };
}
