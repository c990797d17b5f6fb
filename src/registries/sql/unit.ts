import type { Parameters, Result, Row, Session, Statement } from "./dialect.ts";
import { named, type Names } from "./statements.ts";

/** Somebody else was faster: what was read is not so any more. Nothing was changed. */
export class Raced extends Error {}

/** What was read is not so any more by our own doing: decide again. */
export class Changed extends Error {}

/** Waits until all of these have ended, well or badly: nobody may go on with a connection that others use. Throws what one threw. */
export async function together<Each extends readonly unknown[]>(
  asked: readonly [...Each],
): Promise<{ -readonly [Index in keyof Each]: Awaited<Each[Index]> }> {
  await Promise.allSettled(asked);
  return Promise.all(asked);
}

/** A statement that waits to be sent. */
interface Asked extends Statement {
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/**
 * One piece of work on one connection: statements by name, on the tables of one namespace. What is asked for at the same time
 * (`together`) is sent in one piece, in its order: most of the time that an operation takes is that of round trips.
 */
export class Unit {
  /** Whether a commit is on its way, or was answered with doubts: what was asked may have been done. */
  unclear = false;
  /** What waits for an answer, a transaction that is open included. */
  #open = 0;
  #asked: Asked[] = [];
  /** Whether a transaction is to begin with what is sent next. */
  #begins = false;
  readonly #session: Session;
  readonly #statements: ReadonlyMap<string, string>;
  readonly #names: Names;

  constructor(session: Session, statements: ReadonlyMap<string, string>, names: Names) {
    this.#session = session;
    this.#statements = statements;
    this.#names = { ...names, ...session.names };
  }

  /** Whether the connection is as it was before: others may use it. */
  get settled(): boolean {
    return this.#open === 0;
  }

  async all(name: string, parameters: Parameters = {}): Promise<readonly Row[]> {
    return (await this.#run(name, parameters)).rows;
  }

  async get(name: string, parameters: Parameters = {}): Promise<Row | undefined> {
    return (await this.all(name, parameters))[0];
  }

  /** Returns how many rows it changed. */
  async change(name: string, parameters: Parameters): Promise<number> {
    return (await this.#run(name, parameters)).count;
  }

  /** Changes one row that has to be as it was read. @throws Raced where it is not. */
  async swap(name: string, parameters: Parameters): Promise<void> {
    if ((await this.change(name, parameters)) !== 1) throw new Raced(name);
  }

  /** Runs a statement that is not in a file, such as one of the schema. */
  async execute(text: string): Promise<readonly Row[]> {
    return (await this.#ask(text, {})).rows;
  }

  /** All of it or nothing. `work` has to have waited for everything that it asked for when it ends, well or badly. */
  async transaction<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    this.#open++;
    this.#begins = true;
    let answer: Answer;
    try {
      answer = await work();
    } catch (error) {
      // Where that fails the connection is destroyed, and the server does the same.
      if (!this.#begins) await this.#session.rollback();
      this.#begins = false;
      this.#open--;
      throw error;
    }
    if (this.#begins) throw new Error("a transaction of nothing");
    this.unclear = true;
    const confirmed = await this.#session.commit();
    if (!confirmed) throw new Error("committed here only, without its standby");
    this.unclear = false;
    this.#open--;
    return answer;
  }

  #run(name: string, parameters: Parameters): Promise<Result> {
    const text = this.#statements.get(name);
    if (text === undefined) throw new Error(`no statement is called ${name}`);
    return this.#ask(text, parameters);
  }

  async #ask(text: string, parameters: Parameters): Promise<Result> {
    this.#open++;
    try {
      return await new Promise<Result>((resolve, reject) => {
        if (this.#asked.length === 0) queueMicrotask(() => void this.#send());
        this.#asked.push({ text: named(text, this.#names), parameters, resolve, reject });
      });
    } finally {
      this.#open--;
    }
  }

  async #send(): Promise<void> {
    const asked = this.#asked;
    const begins = this.#begins;
    this.#asked = [];
    this.#begins = false;
    try {
      const results = await this.#session.run(asked, begins);
      for (const [i, { resolve }] of asked.entries()) resolve(results[i] ?? { rows: [], count: 0 });
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }
}
