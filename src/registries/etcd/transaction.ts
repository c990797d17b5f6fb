import { setImmediate as turn } from "node:timers/promises";
import { z } from "zod";
import type { AnswerClock } from "../answer-clock.ts";
import { Beaten } from "../engine/operate.ts";
import { nonsense } from "./errors.ts";
import type { Gateway } from "./gateway.ts";

/** What a key holds. */
export interface Entry {
  readonly key: string;
  readonly value: string;
  /** The cluster's revision at the last write of the key. */
  readonly revision: string;
}

/** The keys to read, from `from` on and before `end`. */
export interface KeyRange {
  readonly from: string;
  readonly end: string;
  readonly limit: number;
  readonly descending?: true;
  readonly keysOnly?: true;
}

/**
 * A condition of a write: the key has the revision and the value that were read. If `before` is undefined, the key does not exist. The
 * revision alone is not enough: it can come again if an operator restores the cluster from a snapshot. A write that was decided before the
 * restore and arrives after it would take effect on a value that its writer never saw.
 */
export interface Expected {
  readonly key: string;
  readonly before: Entry | undefined;
}

/** A write. `value` undefined deletes the key; with `end`, it deletes all keys from `key` on and before `end`. */
export interface KeyWrite {
  readonly key: string;
  readonly value: string | undefined;
  readonly end?: string;
}

const kv = z.object({ key: z.string(), value: z.string().default(""), mod_revision: z.string() });
const reply = z.object({
  header: z.object({ revision: z.string() }),
  succeeded: z.boolean().default(false),
  responses: z
    .array(
      z.object({
        response_range: z.object({ kvs: z.array(kv).default([]), count: z.string().default("0") }).optional(),
      }),
    )
    .default([]),
});

/** The result of one read. */
interface Found {
  readonly entries: readonly Entry[];
  readonly count: number;
}

/** The reads of one round trip, and their results. */
interface ReadBatch {
  readonly reads: object[];
  readonly answer: Promise<readonly Found[]>;
}

/** The most reads, or writes, of one transaction: the default limit of a cluster. */
const mostOperations = 128;
/** The most conditions. A cluster counts each as two. */
export const mostConditions: number = mostOperations / 2;

/** The reads and writes of one attempt. */
export class EtcdTransaction {
  /** The clock of the member that answered last. */
  clock: AnswerClock | undefined;
  readonly #gateway: Gateway;
  readonly #deadline: number;
  #batch: ReadBatch | undefined;

  constructor(gateway: Gateway, deadline: number) {
    this.#gateway = gateway;
    this.#deadline = deadline;
  }

  /** Reads a key; undefined if it does not exist. Reads that start at the same time share one round trip, and see one state. */
  async get(key: string): Promise<Entry | undefined> {
    const { entries } = await this.#read({ key: bytesOf(key) });
    return entries[0];
  }

  /** Reads keys in their order. */
  async list({ from, end, limit, descending, keysOnly }: KeyRange): Promise<readonly Entry[]> {
    const { entries } = await this.#read({
      key: bytesOf(from),
      range_end: bytesOf(end),
      limit,
      ...(descending === true && { sort_order: "DESCEND", sort_target: "KEY" }),
      ...(keysOnly === true && { keys_only: true }),
    });
    return entries;
  }

  /** Counts keys. */
  async count({ from, end }: Pick<KeyRange, "from" | "end">): Promise<number> {
    return (await this.#read({ key: bytesOf(from), range_end: bytesOf(end), count_only: true })).count;
  }

  /**
   * Writes all or none. Returns the new revision of the written keys.
   * @throws Beaten if a condition does not hold, Unanswered if the answer is missing.
   */
  async commit(conditions: readonly Expected[], writes: readonly KeyWrite[]): Promise<string> {
    const compare = conditions.flatMap(({ key: name, before }): object[] => {
      const key = bytesOf(name);
      if (before === undefined) return [{ key, target: "CREATE", result: "EQUAL", create_revision: "0" }];
      return [
        { key, target: "MOD", result: "EQUAL", mod_revision: before.revision },
        { key, target: "VALUE", result: "EQUAL", value: bytesOf(before.value) },
      ];
    });
    const success = writes.map(({ key, value, end }) =>
      value === undefined
        ? { request_delete_range: { key: bytesOf(key), ...(end !== undefined && { range_end: bytesOf(end) }) } }
        : { request_put: { key: bytesOf(key), value: bytesOf(value) } },
    );
    const { succeeded, header } = await this.#send({ compare, success }, true);
    if (!succeeded) throw new Beaten("other writers were faster");
    return header.revision;
  }

  /**
   * Sends writes of these keys under a condition that never holds. The cluster checks the rights of the user, and writes nothing. `never`:
   * a key that the condition expects both to exist and not to exist.
   */
  async rehearse(never: string, keys: readonly string[]): Promise<void> {
    const key = bytesOf(never);
    const compare = ["EQUAL", "GREATER"].map((result) => ({ key, target: "CREATE", result, create_revision: "0" }));
    const value = bytesOf("");
    const success = keys.map((each) => ({ request_put: { key: bytesOf(each), value } }));
    await this.#send({ compare, success }, false);
  }

  #read(range: object): Promise<Found> {
    if (this.#batch !== undefined && this.#batch.reads.length >= mostOperations) this.#batch = undefined;
    this.#batch ??= this.#newBatch();
    const { reads, answer } = this.#batch;
    const place = reads.push({ request_range: range }) - 1;
    return answer.then((found) => found[place] ?? { entries: [], count: 0 });
  }

  #newBatch(): ReadBatch {
    const reads: object[] = [];
    // Waits until after the microtasks, so that the reads of several steps of one decision share a round trip.
    const answer = turn().then(async () => {
      this.#batch = undefined;
      const { responses } = await this.#send({ success: reads }, false);
      return responses.map(({ response_range: { kvs = [], count = "0" } = {} }) => ({
        entries: kvs.map(entryOf),
        count: Number(count),
      }));
    });
    return { reads, answer };
  }

  async #send(body: object, writes: boolean): Promise<z.infer<typeof reply>> {
    const { json, clock } = await this.#gateway.call("kv/txn", body, { deadline: this.#deadline, writes });
    this.clock = clock;
    const answer = reply.safeParse(json);
    if (answer.success) return answer.data;
    throw nonsense(this.#gateway.where, json);
  }
}

function entryOf({ key, value, mod_revision: revision }: z.infer<typeof kv>): Entry {
  return { key: textOf(key), value: textOf(value), revision };
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString("base64");
}

function textOf(base64: string): string {
  return Buffer.from(base64, "base64").toString();
}
