import { SnowleaseError } from "../../id/errors.ts";
import type { Registry } from "../../rule/registry.ts";
import { together } from "../together.ts";
import { operate, type Operated, type Try, Unanswered } from "./operate.ts";
import type {
  Operation,
  OperationKind,
  Outcome,
  RunOperation,
  StoreChanges,
  StoreRead,
  StoreReads,
  StoreRest,
  StoreView,
} from "./port.ts";
import { registryOf } from "./registry.ts";

/** A store behind a network. An operation reads, decides, and commits if nothing of what it read has changed. */
export interface RemoteStore extends StoreRest, Operated {
  /** Whether one commit may pin many worker IDs. */
  readonly pinsTogether: boolean;
  /** Runs `work` with an attempt, once the attempt has what it needs, such as a connection. */
  attempt<Answer>(namespace: string, how: AttemptOptions, work: (attempt: Attempt) => Promise<Answer>): Promise<Answer>;
}

/** The purpose of an attempt. */
export interface AttemptOptions extends Pick<Try, "deadline" | "races"> {
  readonly kind: OperationKind;
  /**
   * Among how many equally good worker IDs its reads choose at random, because other claims try to take the first of them at this moment.
   */
  readonly spread: number;
}

/** One attempt at an operation. It remembers what it read. */
export interface Attempt {
  /** Reads with as few round trips as the store can. */
  read(reads: readonly StoreRead[]): Promise<Answers>;
  /**
   * If the changes delete a namespace, a commit may delete a part of its records and claims, and leave the rest as it is. It is then called
   * again.
   * @throws Beaten if anything that was read has changed: nothing is written then. Changed if the operation has to decide again after a
   *   write. Unanswered. SnowleaseError.
   */
  commit(changes: StoreChanges): Promise<void>;
}

/** What reads found. */
export interface Answers extends Pick<StoreView, "clock" | "standing" | "refusal" | "others" | "lateness" | "isGone"> {
  /** In the order of the reads. */
  readonly found: readonly unknown[];
}

/** A store that has a method for each read. Reads that start at the same time fit in one round trip. */
export type StoreReader = {
  readonly [Name in keyof StoreReads]: (
    ...input: Parameters<StoreReads[Name]>
  ) => Promise<ReturnType<StoreReads[Name]>>;
};

/** Starts all reads at once. */
export function askAll<Name extends keyof StoreReads>(
  reader: Pick<StoreReader, Name>,
  reads: readonly (readonly [name: Name, ...input: readonly unknown[]])[],
): Promise<readonly unknown[]> {
  const ask = ([name, ...input]: (typeof reads)[number]): Promise<unknown> =>
    (reader[name] as (...input: readonly unknown[]) => Promise<unknown>).apply(reader, input);
  return together(reads.map(ask));
}

/**
 * After each lost race, a claim chooses among 16 times more worker IDs. If 200 processes start at once, their third attempts hardly meet.
 */
const [spreads, mostSpread] = [16, 256];

/** The registry in such a store. */
export function optimistic(store: RemoteStore): Registry {
  /** How many claims run here now. Without the spread, they would try to take the same worker IDs. */
  let claiming = 0;

  const run: RunOperation = async (namespace, kind, begin) => {
    const sent: StoreChanges[] = [];
    if (kind === "claim") claiming++;
    try {
      return await operate(store, { repeatable: kind !== "once" }, ({ deadline, races, waited }) => {
        const spread = Math.min(mostSpread, Math.max(spreads ** races, spreads * (claiming - 1)));
        return store.attempt(namespace, { deadline, races, kind, spread }, async (attempt) => {
          const { answer, changes } = await decide(begin({ waited: waited(), sent }), attempt);
          if (changes !== undefined) {
            await attempt.commit(changes).catch((error: unknown) => {
              if (error instanceof Unanswered) sent.push(changes);
              throw error;
            });
          }
          if (answer instanceof SnowleaseError) throw answer;
          return answer;
        });
      });
    } finally {
      if (kind === "claim") claiming--;
    }
  };
  return registryOf(store, { run, pinsTogether: store.pinsTogether });
}

/** Runs an operation to its end, and sends it what its reads find. */
async function decide<Answer>(operation: Operation<Answer>, attempt: Attempt): Promise<Outcome<Answer>> {
  const found = new Map<string, unknown>();
  let next = operation.next();
  while (next.done !== true) {
    const reads = next.value;
    const { found: answers, ...rest } = await attempt.read(reads);
    for (const [i, read] of reads.entries()) found.set(JSON.stringify(read), answers[i]);
    next = operation.next({ ...answeredReads(found), ...rest });
  }
  return next.value;
}

/** The answers to all reads so far. The JSON of a read is the key. */
function answeredReads(found: ReadonlyMap<string, unknown>): StoreReads {
  const answered =
    <Name extends keyof StoreReads>(name: Name) =>
    (...input: Parameters<StoreReads[Name]>): ReturnType<StoreReads[Name]> => {
      const read = JSON.stringify([name, ...input]);
      // A read that was not announced must not look like a worker ID without a record.
      if (!found.has(read)) throw new Error(`an operation reads ${read}, which it did not announce`);
      return found.get(read) as ReturnType<StoreReads[Name]>;
    };
  return {
    byToken: answered("byToken"),
    byId: answered("byId"),
    firstUnused: answered("firstUnused"),
    oldest: answered("oldest"),
    oldestOfHost: answered("oldestOfHost"),
    pinnedFor: answered("pinnedFor"),
    newestOfHost: answered("newestOfHost"),
    page: answered("page"),
    ended: answered("ended"),
  };
}
