import { type Clock, monotonic } from "../../lease/clock.ts";
import { setImmediate as turn } from "node:timers/promises";
import type { Moment, Work } from "./database.ts";

/** So many writes are one transaction at most: for longer neither others wait for the file nor this process for its event loop. */
const mostWrites = 64;
/** When writes keep coming, a transaction waits for others no longer than this, ms. */
const longestGathering = 10;
/** Turns of the event loop without another write, after which none is under way: from a new connection to its first write are two. */
const quietTurns = 3;

/** A write that waits for its transaction. */
interface Waiting {
  readonly work: Work<unknown>;
  /** When it was asked for, on the monotonic clock, ms. */
  readonly asked: number;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/** The transactions of a database. */
export interface Transactions {
  /** Runs a transaction behind those before it: durable once it resolves. */
  run<Answer>(work: Work<Answer>): Promise<Answer>;
  /** Runs a part of the present transaction. Where the part throws, what it wrote is undone; throws where all is. */
  part<Answer>(work: () => Answer): PartEnd<Answer>;
}

/** What came of a part of a transaction. */
export type PartEnd<Answer> = { readonly answer: Answer } | { readonly error: unknown };

/**
 * Puts the writes that wait at the same time into one transaction: to sync the log once costs as much as many writes, and a daemon
 * with 5,000 leases makes 1,500 of them a second. None is answered before the commit.
 */
export class Batches {
  readonly #transactions: Transactions;
  readonly #clock: Clock;
  /** One transaction is under way for each `mostWrites` of these. */
  readonly #waiting: Waiting[] = [];

  constructor(transactions: Transactions, clock: Clock) {
    this.#transactions = transactions;
    this.#clock = clock;
  }

  /** Runs a work with those that come at the same time. Rejects with what it throws, alone. */
  write<Answer>(work: Work<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const asked = monotonic(this.#clock);
      this.#waiting.push({ work, asked, resolve, reject });
      if (this.#waiting.length % mostWrites === 1) void this.#writeSome();
    });
  }

  /**
   * Waits for as long as each few turns of the event loop bring another write, until a transaction is full. Node takes one connection
   * a turn: when the thousands of a daemon that was restarted come back, turns are what they wait for, and a transaction in each
   * would let in some 300 a second.
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
    let some: readonly Waiting[] | undefined;
    const take = (): readonly Waiting[] => (some ??= this.#waiting.splice(0, mostWrites));
    try {
      const ends = await this.#transactions.run((moment) => this.#runAll(take(), moment));
      for (const end of ends) end();
    } catch (error) {
      for (const { reject } of take()) reject(error);
    }
  }

  /** Runs works one after the other. What it returns tells each of them, once all are durable, what came of it. */
  #runAll(some: readonly Waiting[], moment: Moment): readonly (() => void)[] {
    const [only] = some;
    if (some.length === 1 && only !== undefined) {
      const answer = only.work(moment);
      return [() => only.resolve(answer)];
    }
    return some.map((one, i) => {
      // The first one waited for nothing but the lock.
      const end = this.#transactions.part(() => one.work(i === 0 ? moment : this.#later(moment, one)));
      return "error" in end ? () => one.reject(end.error) : () => one.resolve(end.answer);
    });
  }

  /** The moment of a work that is behind others. */
  #later(moment: Moment, { asked }: Waiting): Moment {
    return { ...moment, now: this.#clock.now(), waited: Math.floor(monotonic(this.#clock) - asked) };
  }
}
