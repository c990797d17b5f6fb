import { readStatements } from "../../assets.ts";
import type { SqliteConnection, SqliteParameters, SqliteRow, SqliteStatement } from "./driver.ts";

/** The files of `sql/sqlite` that hold statements. */
const statementFiles = ["band", "claim", "clock", "history", "namespace", "ping", "record", "registry", "workers"];

/** The statements of `sql/sqlite`, by file and name: `claim.oldest`. */
export interface SqliteStatements {
  get(name: string, parameters?: SqliteParameters): SqliteRow | undefined;
  all(name: string, parameters?: SqliteParameters): readonly SqliteRow[];
  /** Returns how many rows it changed. */
  run(name: string, parameters?: SqliteParameters): number;
}

/** The texts of all statements, by file and name. */
export function* statementTexts(): Generator<readonly [name: string, text: string]> {
  for (const file of statementFiles) {
    for (const [section, text] of readStatements(`sqlite/${file}.sql`)) yield [`${file}.${section}`, text];
  }
}

/** The statements on one connection. Each is prepared at its first use: libsql ends none before it is collected as garbage. */
export class PreparedStatements implements SqliteStatements {
  readonly #connection: SqliteConnection;
  readonly #texts = new Map(statementTexts());
  readonly #prepared = new Map<string, SqliteStatement>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  get(name: string, parameters?: SqliteParameters): SqliteRow | undefined {
    return this.#statement(name).get(parameters);
  }

  all(name: string, parameters?: SqliteParameters): readonly SqliteRow[] {
    return this.#statement(name).all(parameters);
  }

  run(name: string, parameters?: SqliteParameters): number {
    return this.#statement(name).run(parameters);
  }

  /** Forgets them, so that they can be collected. */
  clear(): void {
    this.#prepared.clear();
  }

  #statement(name: string): SqliteStatement {
    let statement = this.#prepared.get(name);
    if (statement === undefined) {
      statement = this.#connection.prepare(this.#texts.get(name) ?? "");
      this.#prepared.set(name, statement);
    }
    return statement;
  }
}

/** The same statements for one namespace: each gets its `namespace_id`. */
export function statementsOf(sql: SqliteStatements, namespace_id: number): SqliteStatements {
  return {
    get: (name, parameters) => sql.get(name, { namespace_id, ...parameters }),
    all: (name, parameters) => sql.all(name, { namespace_id, ...parameters }),
    run: (name, parameters) => sql.run(name, { namespace_id, ...parameters }),
  };
}
