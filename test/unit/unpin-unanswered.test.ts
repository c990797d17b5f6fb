import { expect, test } from "vitest";
import { compareAndSetRegistry } from "../../src/registries/compare-and-set/registry.ts";
import {
  Beaten,
  type CompareAndSetStore,
  type StoreAttempt,
  Unanswered,
  type VersionedRecord,
} from "../../src/registries/compare-and-set/store.ts";
import { pinnedRecord, unusedRecord } from "../../src/rule/pin.ts";

/**
 * A store in which worker 7 is pinned, and that tries again after an answer that was lost. `endings`: how each write ends; `done` tells
 * whether it took effect.
 */
function storeOf(endings: { readonly done: boolean; readonly error?: Error }[]): CompareAndSetStore<VersionedRecord> {
  const records = new Map([[7, { record: pinnedRecord(unusedRecord(7), "broken", undefined) }]]);
  const one: Partial<StoreAttempt<VersionedRecord>> = {
    snapshot: async (_, workerIds) => ({ state: undefined, records: workerIds.map((id) => records.get(id)) }),
    async unpin(changes) {
      const { done = true, error } = endings.shift() ?? {};
      if (done) for (const { before } of changes) records.delete(before.record.workerId);
      if (error !== undefined) throw error;
    },
  };
  const store: Pick<CompareAndSetStore<VersionedRecord>, "kind" | "title" | "pinsTogether" | "attempt"> = {
    kind: "test",
    title: "The test's store",
    pinsTogether: true,
    async attempt(_, __, work) {
      for (;;) {
        try {
          return await work(one as StoreAttempt<VersionedRecord>);
        } catch (error) {
          if (!(error instanceof Unanswered || error instanceof Beaten)) throw error;
        }
      }
    },
  };
  return store as CompareAndSetStore<VersionedRecord>;
}

test.each([
  ["was done", [{ done: true, error: new Unanswered() }], true],
  ["was not done", [{ done: false, error: new Unanswered() }], true],
  ["came too late for another operator's", [{ done: true, error: new Beaten() }], false],
  [
    "was not done, and another operator's was faster",
    [
      { done: false, error: new Unanswered() },
      { done: true, error: new Beaten() },
    ],
    false,
  ],
])("an unpin whose first try %s says so", async (_, endings, unpinned) => {
  expect(await compareAndSetRegistry(storeOf(endings)).unpin("orders", 7)).toBe(unpinned);
});
