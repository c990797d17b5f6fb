import { type Clock, monotonic } from "../../clock.ts";
import { setImmediate as turn } from "node:timers/promises";
import type { SqliteTransaction, TransactionWork } from "./transaction.ts";

/** The highest count of writes in one transaction. More would delay other processes, and the event loop of this one. */
const mostWrites = 64;
/** How long a transaction waits for further writes, ms, while they keep coming. */
const longestGathering = 10;
/**
 * After so many turns of the event loop without a further write, none is on its way. From a new connection to its first write there are two
 * turns.
 */
const quietTurns = 3;

/** A write that waits for its transaction. */
interface QueuedWrite {
  readonly work: TransactionWork<unknown>;
  /** On the monotonic clock, ms. */
  readonly requestedAt: number;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/** The transactions of a database. */
interface WriteTransactions {
  /** Runs a transaction after the earlier ones. Resolves once it is durable. */
  run<Answer>(work: TransactionWork<Answer>): Promise<Answer>;
  /**
   * Runs a part of a transaction. If the part throws, its writes are rolled back, and `failed` gives the answer. Throws if the whole
   * transaction was rolled back.
   */
  part<Answer>(work: () => Answer, failed: (error: unknown) => Answer): Answer;
}

/**
 * Combines writes that wait at the same time into one transaction. One sync of the log costs as much as many writes, and a daemon with
 * 5,000 leases makes 1,500 writes a second. No write is answered before the commit.
 */
export class WriteBatches {
  readonly #transactions: WriteTransactions;
  readonly #clock: Clock;
  /** One transaction is waiting or running for each `mostWrites` of these writes. */
  readonly #waiting: QueuedWrite[] = [];

  constructor(transactions: WriteTransactions, clock: Clock) {
    this.#transactions = transactions;
    this.#clock = clock;
  }

  /** Runs a write together with others that come at the same time. If its work throws, only this write rejects. */
  write<Answer>(work: TransactionWork<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ work, requestedAt: monotonic(this.#clock), resolve, reject });
      if (this.#waiting.length % mostWrites === 1) void this.#writeSome();
    });
  }

  /**
   * Waits until a transaction is full, or no further write comes for a few turns of the event loop. Node accepts one connection in each
   * turn. With one transaction in each turn, a restarted daemon would serve only some 300 returning holders a second.
   */
  async gather(): Promise<void> {
    const end = performance.now() + longestGathering;
    let quiet = 0;
    while (quiet < quietTurns && this.#waiting.length < mostWrites && performance.now() < end) {
      const { length } = this.#waiting;
      await turn();
      quiet = this.#waiting.length > length ? 0 : quiet + 1;
    }
  }

  async #writeSome(): Promise<void> {
    let some: readonly QueuedWrite[] | undefined;
    const take = (): readonly QueuedWrite[] => (some ??= this.#waiting.splice(0, mostWrites));
    try {
      const answers = await this.#transactions.run((transaction) => this.#runAll(take(), transaction));
      for (const answer of answers) answer();
    } catch (error) {
      for (const { reject } of take()) reject(error);
    }
  }

  /** Runs writes one after the other. Returns the calls that answer them, for the time when all are durable. */
  #runAll(some: readonly QueuedWrite[], transaction: SqliteTransaction): readonly (() => void)[] {
    return some.map(({ work, requestedAt, resolve, reject }, i) => {
      const run = (): (() => void) => {
        // The first write waited only for the lock.
        const answer = work(i === 0 ? transaction : this.#laterIn(transaction, requestedAt));
        return () => resolve(answer);
      };
      return some.length === 1 ? run() : this.#transactions.part(run, (error) => () => reject(error));
    });
  }

  /** The transaction as a write sees it that runs after earlier writes in it. */
  #laterIn(transaction: SqliteTransaction, requestedAt: number): SqliteTransaction {
    return { ...transaction, now: this.#clock.now(), waited: Math.floor(monotonic(this.#clock) - requestedAt) };
  }
}
