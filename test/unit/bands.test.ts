import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Band, bandAt, bandsIn, changedBands, cutBands, isUnfiled } from "../../src/registries/bands.ts";
import type { PoolBounds } from "../../src/id/pool-bounds.ts";

const highest = 40;
const number = fc.integer({ min: 0, max: highest });
const anyPool = fc.tuple(number, number).map(([a, b]) => ({ first: Math.min(a, b), last: Math.max(a, b) }));

/** Simulates a store's bands: for each worker ID the name that its record is filed under, if it has one. */
class Files {
  bands: readonly Band[] = [];
  readonly names = new Map<number, string>();

  cut(pool: PoolBounds): void {
    this.bands = cutBands(this.bands, pool);
  }

  put(workerId: number): void {
    if (this.names.has(workerId)) return;
    const band = bandAt(this.bands, workerId);
    if (band !== undefined) this.names.set(workerId, band.name);
  }

  /** Files this many worker IDs of a pool. */
  file(pool: PoolBounds, count: number): void {
    const next = bandsIn(this.bands, pool).find(isUnfiled);
    if (next === undefined) return;
    const end = Math.min(next.filed + count - 1, next.last);
    for (let n = next.filed; n <= end; n++) if (this.names.has(n)) this.names.set(n, next.name);
    this.bands = this.bands.map((band) => (band === next ? { ...band, filed: end + 1 } : band));
  }

  /** Worker IDs whose records a claim of the pool would read. */
  seenFrom(pool: PoolBounds): number[] {
    const names = new Set(bandsIn(this.bands, pool).map(({ name }) => name));
    return [...this.names].flatMap(([n, name]) => (names.has(name) ? n : [])).toSorted((a, b) => a - b);
  }

  inside({ first, last }: PoolBounds): number[] {
    return [...this.names.keys()].filter((n) => n >= first && n <= last).toSorted((a, b) => a - b);
  }
}

const anyStep = fc.oneof(
  fc.record({ kind: fc.constant("cut" as const), pool: anyPool }),
  fc.record({ kind: fc.constant("put" as const), workerId: number }),
  fc.record({ kind: fc.constant("file" as const), pool: anyPool, count: fc.integer({ min: 1, max: 12 }) }),
);

describe("bands", () => {
  it("let a claim read no record outside its pool, and each one inside once all are filed, whatever was cut before", () => {
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 40 }), anyPool, (steps, pool) => {
        const files = new Files();
        for (const step of steps) {
          if (step.kind === "put") files.put(step.workerId);
          else if (step.kind === "file") files.file(step.pool, step.count);
          else files.cut(step.pool);
        }
        files.cut(pool);
        const inside = files.inside(pool);
        expect(inside).toEqual(expect.arrayContaining(files.seenFrom(pool)));
        for (let i = 0; i < 200; i++) files.file(pool, 1);
        expect(files.seenFrom(pool)).toEqual(inside);
        // Nothing is left to do, and a repeated claim changes nothing.
        expect(changedBands(files.bands, cutBands(files.bands, pool))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  it("never overlap, cover each requested pool, and are no more than its limits make", () => {
    fc.assert(
      fc.property(fc.array(anyPool, { minLength: 1, maxLength: 20 }), (pools) => {
        let bands: readonly Band[] = [];
        for (const pool of pools) bands = cutBands(bands, pool);
        for (const [i, { first, last }] of bands.entries()) {
          expect(first).toBeLessThanOrEqual(last);
          expect(first).toBeGreaterThan(bands[i - 1]?.last ?? -1);
        }
        for (const { first, last } of pools) {
          for (let n = first; n <= last; n++) expect(bandAt(bands, n)).toBeDefined();
        }
        expect(bands.length).toBeLessThanOrEqual(2 * pools.length + 1);
      }),
    );
  });

  it("are one if only one pool is requested", () => {
    const pool = { first: 0, last: 1023 };
    const bands = cutBands([], pool);
    expect(bands).toEqual([{ name: "0-1023", first: 0, last: 1023, filed: 1024 }]);
    expect(cutBands(bands, pool)).toEqual(bands);
  });

  it("file the records in a narrowed pool, and nothing else; a widened pool files nothing", () => {
    const [wide, narrow] = [
      { first: 0, last: 299_999 },
      { first: 0, last: 999 },
    ];
    const cut = cutBands(cutBands([], wide), narrow);
    expect(cut).toEqual([
      { name: "0-999", first: 0, last: 999, filed: 0 },
      { name: "0-299999", first: 1000, last: 299_999, filed: 300_000 },
    ]);
    expect(cutBands(cut, wide)).toEqual(cut);
  });
});
