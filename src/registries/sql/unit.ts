import type { Parameters, Result, Row, Session } from "./dialect.ts";
import { named, type Names } from "./statements.ts";

/** Somebody else was faster: what was read is not so any more. Nothing was changed. */
export class Raced extends Error {}

/** What was read is not so any more by our own doing: decide again. */
export class Changed extends Error {}

/** One piece of work on one connection: statements by name, on the tables of one namespace. */
export class Unit {
  /** Whether a commit is on its way, or was answered with doubts: what was asked may have been done. */
  unclear = false;
  /** What waits for an answer, a transaction that is open included. */
  #open = 0;
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
  async execute(text: string): Promise<void> {
    await this.#counted(this.#session.run(named(text, this.#names), {}));
  }

  /** All of it or nothing. */
  async transaction<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    this.#open++;
    await this.#session.begin();
    let answer: Answer;
    try {
      answer = await work();
    } catch (error) {
      // Where that fails the connection is destroyed, and the server does the same.
      await this.#session.rollback();
      this.#open--;
      throw error;
    }
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
    return this.#counted(this.#session.run(named(text, this.#names), parameters));
  }

  async #counted<Answer>(answer: Promise<Answer>): Promise<Answer> {
    this.#open++;
    try {
      return await answer;
    } finally {
      this.#open--;
    }
  }
}
