import type { Era } from "../../rule/era.ts";
import { askAll, type Answers, type Attempt } from "../engine/optimistic.ts";
import type { Replacement, StoreChanges, StoreRead } from "../engine/port.ts";
import { together } from "../together.ts";
import { behind, type Keys } from "./keys.ts";
import type { EtcdReader } from "./reader.ts";
import { eraText, metaText, recordText } from "./records.ts";
import type { EtcdTransaction, Expected, KeyWrite } from "./transaction.ts";

/** How many keys of each kind one transaction of a removal deletes. */
const erasedTogether = 1000;

/** One attempt at an operation, on the keys of a namespace. */
export class EtcdAttempt implements Attempt {
  readonly #tx: EtcdTransaction;
  readonly #keys: Keys;
  readonly #reader: EtcdReader;

  constructor(tx: EtcdTransaction, keys: Keys, reader: EtcdReader) {
    this.#tx = tx;
    this.#keys = keys;
    this.#reader = reader;
  }

  async read(reads: readonly StoreRead[]): Promise<Answers> {
    const [{ standing, clock }, found] = await together([this.#reader.begin(), askAll(this.#reader, reads)]);
    return { standing, clock, found };
  }

  async commit({ becomes, records }: StoreChanges): Promise<void> {
    const { meta, note } = await this.#reader.begin();
    const { meta: metaKey, era } = this.#keys;
    const stands: Expected = { key: metaKey, before: meta };
    if (meta !== undefined && becomes !== undefined && becomes.made === undefined)
      return this.#erase(stands, becomes.noted);
    const expected: Expected[] = [stands];
    const writes: KeyWrite[] = [];
    if (meta === undefined) expected.push({ key: era, before: note });
    if (becomes?.made !== undefined) writes.push({ key: metaKey, value: metaText(becomes.made, meta) });
    if (becomes?.made !== undefined && note !== undefined) writes.push({ key: era, value: undefined });
    if (becomes?.noted !== undefined) writes.push({ key: era, value: eraText(becomes.noted, note) });
    for (const record of records) this.#replace(record, expected, writes);
    if (this.#reader.next !== undefined) writes.push(this.#reader.next);
    // A read asks the majority, so it does not lag. If there is nothing to write, the read has already shown that the conditions hold.
    if (writes.length > 0) await this.#tx.commit(expected, writes);
  }

  /** Replaces the record that was read, together with the keys by which claims find it. */
  #replace({ workerId, before, after, ended }: Replacement, expected: Expected[], writes: KeyWrite[]): void {
    const { worker, token, claim } = this.#keys;
    const key = worker(workerId);
    const row = before && this.#reader.rows.get(before);
    if (before !== undefined && row === undefined) throw new Error(`worker ${workerId} was not read`);
    expected.push({ key, before: row?.entry });
    if (after === before) return;
    // A claim that was sent twice must not take two worker IDs.
    if (after?.token !== undefined && after.token !== before?.token) {
      const held = token(after.token);
      expected.push({ key: held, before: this.#reader.tokens.get(held) });
    }
    const old = before === undefined ? new Map<string, string>() : this.#keys.indexes(before);
    const present = after === undefined ? new Map<string, string>() : this.#keys.indexes(after);
    writes.push({ key, value: after && recordText(after, row) });
    for (const each of old.keys()) if (!present.has(each)) writes.push({ key: each, value: undefined });
    for (const [each, value] of present) if (!old.has(each)) writes.push({ key: each, value });
    if (ended !== undefined) writes.push({ key: claim(workerId, ended.fence), value: JSON.stringify(ended) });
  }

  /** Deletes a part of a namespace, or its last part. `noted`: the era that stands under its name after that. */
  async #erase(stands: Expected, noted: Era | undefined): Promise<void> {
    const { parts, era, meta } = this.#keys;
    const found = await together(
      parts.map((part) => this.#tx.list({ ...part, limit: erasedTogether, keysOnly: true })),
    );
    const isLast = found.every(({ length }) => length < erasedTogether);
    // Deletes up to the last listed key. A larger range would keep the cluster busy for long.
    const ends = found.map((keys, i) => (isLast ? parts[i]?.end : behind(keys.at(-1)?.key ?? "")));
    const writes = parts.flatMap(({ from }, i): KeyWrite[] => {
      const end = ends[i];
      return end === undefined || end <= from ? [] : [{ key: from, end, value: undefined }];
    });
    const rest: KeyWrite[] = [
      { key: meta, value: undefined },
      { key: era, value: noted && eraText(noted) },
    ];
    await this.#tx.commit([stands], isLast ? [...writes, ...rest] : writes);
  }
}
