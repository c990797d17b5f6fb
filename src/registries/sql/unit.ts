import type { Parameters, Result, Row, Session } from "./dialect.ts";
import { named, type Names } from "./statements.ts";

/** Somebody else was faster: what was read is not so any more. Nothing was changed. */
export class Raced extends Error {}

/** One piece of work on one connection: statements by name, on the tables of one namespace. */
export class Unit {
  /** Whether a commit is on its way, or was answered with doubts: what was asked may have been done. */
  unclear = false;
  readonly #session: Session;
  readonly #statements: ReadonlyMap<string, string>;
  readonly #names: Names;

  constructor(session: Session, statements: ReadonlyMap<string, string>, names: Names) {
    this.#session = session;
    this.#statements = statements;
    this.#names = { ...names, ...session.names };
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
    await this.#session.run(named(text, this.#names), {});
  }

  /** All of it or nothing. */
  async transaction<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    await this.#session.begin();
    let answer: Answer;
    try {
      answer = await work();
    } catch (error) {
      // Where that fails, so does whoever waits, and the connection is destroyed: the server then does the same.
      await this.#session.rollback();
      throw error;
    }
    this.unclear = true;
    const confirmed = await this.#session.commit();
    if (!confirmed) throw new Error("committed here only, without its standby");
    this.unclear = false;
    return answer;
  }

  #run(name: string, parameters: Parameters): Promise<Result> {
    const text = this.#statements.get(name);
    if (text === undefined) throw new Error(`no statement is called ${name}`);
    return this.#session.run(named(text, this.#names), parameters);
  }
}
