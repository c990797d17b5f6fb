import {
  type TransactionEdges,
  type SqlParameters,
  type SqlResult,
  type SqlRow,
  type SqlConnection,
  type SqlStatement,
  Unconfirmed,
} from "./dialect.ts";
import { together } from "../together.ts";
import { named, type Names } from "./statements.ts";
import { drawVersion } from "./version.ts";

/** A statement that waits to be sent. */
interface QueuedStatement extends SqlStatement {
  resolve(result: SqlResult): void;
  reject(error: unknown): void;
}

/**
 * Runs statements by name on one connection, on the tables of one namespace. It collects the statements of one turn of the event loop
 * (`together`), and sends them in one round trip, in their order. Each statement has its own `:new_version` for the rows that it writes.
 */
export class Transaction {
  /** Whether a commit is on its way, or has an unknown answer: its statements may take effect. */
  unclear = false;
  /** How many statements wait for an answer. An open transaction counts as one. */
  #open = 0;
  #asked: QueuedStatement[] = [];
  /** What surrounds the statements that are sent next. */
  #around: TransactionEdges = {};
  readonly #connection: SqlConnection;
  readonly #statements: ReadonlyMap<string, string>;
  readonly #names: Names;

  constructor(connection: SqlConnection, statements: ReadonlyMap<string, string>, names: Names) {
    this.#connection = connection;
    this.#statements = statements;
    this.#names = { ...names, ...connection.names };
  }

  /** Whether nothing runs on the connection, so that another operation may use it. */
  get settled(): boolean {
    return this.#open === 0;
  }

  /** `names`: more names in braces than those of the namespace. */
  async all(name: string, parameters: SqlParameters = {}, names: Names = {}): Promise<readonly SqlRow[]> {
    return (await this.#run(name, parameters, { names })).rows;
  }

  async get(name: string, parameters: SqlParameters = {}): Promise<SqlRow | undefined> {
    return (await this.all(name, parameters))[0];
  }

  /** Returns how many rows the statement changed. */
  async change(name: string, parameters: SqlParameters): Promise<number> {
    return (await this.#run(name, parameters)).count;
  }

  /** Changes one row under the condition that it is as it was read. @throws Beaten, or the error of a driver with the same meaning. */
  async swap(name: string, parameters: SqlParameters): Promise<void> {
    await this.#run(name, parameters, { swaps: true });
  }

  /** Runs a statement by its text, such as one of the schema. */
  async execute(text: string): Promise<readonly SqlRow[]> {
    return (await this.#ask(text, {})).rows;
  }

  /** Runs statements in one transaction. `work` waits for all its statements before it ends, even if one fails. */
  atomically<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    return this.#within({ begins: true }, async () => {
      const answer = await work();
      this.#around = { ...this.#around, commits: true };
      await this.#send();
      return answer;
    });
  }

  /** The same in one round trip. `work` starts all statements at once. */
  write<Each extends readonly unknown[]>(work: () => readonly [...Each]): ReturnType<typeof together<Each>> {
    return this.#within({ begins: true, commits: true }, () => together(work()));
  }

  async #within<Answer>(around: TransactionEdges, work: () => Promise<Answer>): Promise<Answer> {
    this.#open++;
    this.#around = around;
    const end = (): void => {
      this.unclear = false;
      this.#open--;
    };
    try {
      const answer = await work();
      end();
      return answer;
    } catch (error) {
      this.#around = {};
      if (error instanceof Unconfirmed) throw error;
      // If this fails, the connection is destroyed. The server then rolls back by itself, unless it had committed.
      await this.#connection.rollback().then(end, () => undefined);
      throw error;
    }
  }

  #run(
    name: string,
    parameters: SqlParameters,
    { swaps = false, names = {} }: { readonly swaps?: boolean; readonly names?: Names } = {},
  ): Promise<SqlResult> {
    const text = this.#statements.get(name);
    if (text === undefined) throw new Error(`no statement is called ${name}`);
    return this.#ask(named(text, names), parameters, swaps);
  }

  async #ask(text: string, parameters: SqlParameters, swaps = false): Promise<SqlResult> {
    if (this.unclear) throw new Error("a statement after its commit");
    this.#open++;
    try {
      return await new Promise<SqlResult>((resolve, reject) => {
        if (this.#asked.length === 0) queueMicrotask(() => void this.#sendAsked());
        const all = { new_version: drawVersion(), ...parameters };
        this.#asked.push({ text: named(text, this.#names), parameters: all, swaps, resolve, reject });
      });
    } finally {
      this.#open--;
    }
  }

  async #sendAsked(): Promise<void> {
    const asked = this.#asked;
    this.#asked = [];
    try {
      const results = await this.#send(asked);
      for (const [i, { resolve }] of asked.entries()) resolve(results[i] ?? { rows: [], count: 0 });
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  }

  #send(statements: readonly SqlStatement[] = []): Promise<readonly SqlResult[]> {
    const around = this.#around;
    this.#around = {};
    this.unclear ||= around.commits === true;
    return this.#connection.run(statements, around);
  }
}
