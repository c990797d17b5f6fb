import type { SnowleaseError } from "../../id/errors.ts";
import type { Clock } from "../../lease/clock.ts";
import { namespacePattern } from "../../rule/namespace.ts";
import type { UnknownNamespace } from "../../rule/unknown-namespace.ts";
import { serverNow } from "../answer-clock.ts";
import { together } from "../compare-and-set/decide.ts";
import { operate, type Try } from "../compare-and-set/operate.ts";
import type { StoredNamespace } from "../compare-and-set/store.ts";
import { silentError } from "./errors.ts";
import type { Gateway } from "./gateway.ts";
import { endOf, Keys } from "./keys.ts";
import { readMeta, readNote } from "./records.ts";
import { type Entry, EtcdTransaction } from "./transaction.ts";

/** One attempt, with its reads and writes. */
export interface EtcdTry extends Try {
  readonly tx: EtcdTransaction;
}

/** A namespace as an attempt reads it. */
export interface EtcdNamespace extends StoredNamespace {
  /** Each write expects it unchanged. */
  readonly meta: Entry;
  readonly receiptKey: string;
}

/** A name without a namespace. */
interface EtcdUnknown extends UnknownNamespace {
  /** Each write expects it unchanged. */
  readonly note: Entry | undefined;
}

/** What an attempt finds under a name: one of both. */
export interface NamespaceRead {
  readonly clock: number;
  readonly state: EtcdNamespace | undefined;
  readonly unknown: EtcdUnknown | undefined;
}

/** What a name of a namespace can begin with. */
const letters: readonly string[] = "abcdefghijklmnopqrstuvwxyz".split("");

/** The keys of a registry, and the clock. */
export class EtcdStore {
  readonly title: string;
  /** How many claims are under way. */
  claiming = 0;
  readonly #gateway: Gateway;
  readonly #prefix: string;
  readonly #clock: Clock;

  constructor(gateway: Gateway, prefix: string, clock: Clock) {
    this.title = `etcd ${gateway.where}`;
    this.#gateway = gateway;
    this.#prefix = prefix;
    this.#clock = clock;
  }

  keys(namespace: string): Keys {
    return new Keys(this.#prefix, namespace);
  }

  /** Makes attempts until one is done. `repeatable`: as of `operate`. */
  run<Answer>(
    work: (tried: EtcdTry) => Promise<Answer>,
    { repeatable }: { readonly repeatable: boolean } = { repeatable: true },
  ): Promise<Answer> {
    const gateway = this.#gateway;
    const { where, operationTimeout } = gateway;
    const silent = (cause: Error): SnowleaseError => silentError(where, operationTimeout, true, cause);
    const operated = { title: this.title, clock: this.#clock, operationTimeout, silent };
    return operate(operated, { repeatable }, (tried) =>
      work({ ...tried, tx: new EtcdTransaction(gateway, tried.deadline) }),
    );
  }

  /** Reads a namespace. */
  async read(tx: EtcdTransaction, keys: Keys): Promise<NamespaceRead> {
    const [meta, note] = await together([tx.get(keys.meta), tx.get(keys.era)]);
    const clock = this.now(tx);
    if (meta === undefined) return { clock, state: undefined, unknown: { clock, noted: note && readNote(note), note } };
    const { era, ...stored } = readMeta(meta);
    return { clock, state: { ...era, ...stored, meta, clock }, unknown: undefined };
  }

  /**
   * What stands behind the prefix, in ascending order, from the first letter of `after` on: one read for each name. A read costs a member as
   * much as all keys of its range, so none goes beyond one first letter.
   */
  async *names(after: string): AsyncGenerator<string, void, undefined> {
    const root = `${this.#prefix}/`;
    const behind = namespacePattern.test(after) ? endOf(`${root}${after}/`) : root;
    const firstKey = async (tx: EtcdTransaction, from: string, letter: string): Promise<string | undefined> =>
      (await tx.list({ from, end: endOf(root + letter), limit: 1, keysOnly: true }))[0]?.key;
    const left = letters.filter((letter) => letter >= after.slice(0, 1));
    const firsts = await this.run(({ tx }) =>
      together(left.map((letter) => firstKey(tx, root + letter > behind ? root + letter : behind, letter))),
    );
    for (const [i, letter] of left.entries()) {
      for (let key = firsts[i]; key !== undefined;) {
        const [name = ""] = key.slice(root.length).split("/");
        yield name;
        key = await this.run(({ tx }) => firstKey(tx, endOf(`${root}${name}/`), letter));
      }
    }
  }

  /** The clock of the member that answered last, Unix ms. */
  now({ clock }: EtcdTransaction): number {
    return serverNow(this.#clock, clock);
  }

  close(): void {
    this.#gateway.close();
  }
}
