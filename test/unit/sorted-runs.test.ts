import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { idOf } from "../../src/ops/audit/id-lines.ts";
import { SortedRuns } from "../../src/ops/audit/sorted-runs.ts";

const runLength = 4096;

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-runs-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function newRuns(folder: string = newFolder()): SortedRuns {
  const runs = new SortedRuns(runLength, folder);
  onTestFinished(() => runs.close());
  return runs;
}

type Entry = readonly [id: bigint, place: number];

function sorted(entries: readonly Entry[], runs = newRuns()): Entry[] {
  for (const [id, place] of entries) runs.add(Number(id >> 32n), Number(id & 0xffff_ffffn), place);
  const found: Entry[] = [];
  for (const { count, uppers, lowers, places } of runs.merged()) {
    for (let i = 0; i < count; i++) found.push([idOf(uppers[i] ?? 0, lowers[i] ?? 0), places[i] ?? 0]);
  }
  return found;
}

const inOrder = (entries: readonly Entry[]): Entry[] =>
  entries.toSorted(([a, at], [b, bt]) => (a < b ? -1 : a > b ? 1 : at - bt));

describe("sorted runs", () => {
  test("put any IDs in order, equal ones as they came", () => {
    const anyId = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.bigInt({ min: 0n, max: 9n }));
    fc.assert(
      fc.property(fc.array(anyId), (ids) => {
        const entries = ids.map((id, i): Entry => [id, i + 1]);
        expect(sorted(entries)).toEqual(inOrder(entries));
      }),
    );
  });

  test.each([0, 1, runLength - 1, runLength, runLength + 1, 5 * runLength, 40 * runLength + 77])(
    "merge %i IDs, of which all runs have some in common",
    (count) => {
      // Spread over all bits, and each of a few hundred so often that every run has some of them.
      const entries = Array.from({ length: count }, (_, i): Entry => {
        return [(BigInt((i * 7919) % 613) * 0x9e37_79b9_7f4a_7c15n) % 2n ** 63n, i + 1];
      });
      expect(sorted(entries)).toEqual(inOrder(entries));
    },
  );

  test("keep places that are far apart", () => {
    const entries: Entry[] = [
      [5n, 1],
      [5n, 2 ** 32],
      [4n, 2 ** 32 + 1],
      [5n, 2 ** 40],
      [4n, 2 ** 50],
    ];
    expect(sorted(entries)).toEqual(inOrder(entries));
  });

  test("leave no named file behind, not even while they are in use", () => {
    const folder = newFolder();
    const runs = newRuns(folder);
    for (let i = 0; i <= 2 * runLength; i++) runs.add(0, i, i + 1);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("use no disk if they fit", () => {
    const entries = Array.from({ length: runLength }, (_, i): Entry => [BigInt(i), i + 1]);
    expect(sorted(entries, newRuns("/none/such"))).toEqual(entries);
  });

  test("say which folder they need", () => {
    const entries = Array.from({ length: runLength + 1 }, (_, i): Entry => [BigInt(i), i + 1]);
    expect(() => sorted(entries, newRuns("/none/such"))).toThrow(
      /^Temporary files in `\/none\/such` cannot be written: ENOENT.*; free 12 bytes per ID there, .* TMPDIR\.$/,
    );
  });

  const canMount = process.getuid?.() === 0 && spawnSync("unshare", ["--mount", "true"]).status === 0;

  test.skipIf(!canMount)("say that the disk is full (needs root that may mount one)", () => {
    const folder = newFolder();
    const system = (command: string, ...args: string[]): unknown => spawnSync(command, args).status;
    expect(system("mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder)).toBe(0);
    onTestFinished(() => void system("umount", "--lazy", folder));
    const entries = Array.from({ length: 4 * runLength }, (_, i): Entry => [BigInt(i), i + 1]);
    expect(() => sorted(entries, newRuns(folder))).toThrow(/ENOSPC.*; free 12 bytes per ID there/);
  });
});
