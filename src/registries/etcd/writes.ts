import type { HistoryRow } from "../../rule/registry.ts";
import type { Stored } from "../../rule/window.ts";
import type { Keys } from "./keys.ts";
import { type EtcdRecord, recordText } from "./records.ts";
import type { EtcdNamespace } from "./store.ts";
import type { EtcdTransaction, Expected, KeyWrite } from "./transaction.ts";

/** Writes, and what they expect. */
export interface KeyChange {
  readonly expected: readonly Expected[];
  readonly writes: readonly KeyWrite[];
}

/** A record in the place of another one. */
interface RecordPlace {
  readonly before: EtcdRecord | undefined;
  /** Undefined: the record is deleted. */
  readonly after: Stored | undefined;
  /** The name of its band. Default: as before. */
  readonly band?: string | undefined;
}

/** The change that puts a record, with the keys by which claims find it, in the place of the one that was read. */
export function changeOf(keys: Keys, { before, after, band = before?.band }: RecordPlace): KeyChange {
  const key = keys.worker((before?.record ?? after)?.workerId ?? 0);
  const old = before === undefined ? new Map<string, string>() : keys.indexes(before.record, before.band);
  const present = after === undefined ? new Map<string, string>() : keys.indexes(after, band);
  const gone = [...old.keys()].filter((each) => !present.has(each));
  const added = [...present].filter(([each]) => !old.has(each));
  return {
    expected: [{ key, before: before?.entry }],
    writes: [
      { key, value: after && recordText(after, band, before) },
      ...gone.map((each) => ({ key: each, value: undefined })),
      ...added.map(([each, value]) => ({ key: each, value })),
    ],
  };
}

/** Writes in the era that was read. Returns the revision of what it wrote. @throws Beaten */
export function commit(
  tx: EtcdTransaction,
  { meta }: Keys,
  state: EtcdNamespace,
  changes: readonly KeyChange[],
): Promise<string> {
  const era: Expected = { key: meta, before: state.meta };
  return tx.commit(
    [era, ...changes.flatMap(({ expected }) => expected)],
    changes.flatMap(({ writes }) => writes),
  );
}

/** The change that adds the row of a claim to the history; it changes nothing where there is none. */
export function rowWrites({ claim }: Keys, row: HistoryRow | undefined): KeyChange {
  if (row === undefined) return { expected: [], writes: [] };
  return { expected: [], writes: [{ key: claim(row.workerId, row.fence), value: JSON.stringify(row) }] };
}
