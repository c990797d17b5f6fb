import { readStatements } from "../sql-sections.ts";
import type { SqliteConnection, SqliteRow, SqliteStatement } from "./driver.ts";

/** The files of `sql/sqlite` that contain statements. */
const statementFiles = ["claim", "clock", "erase", "history", "namespace", "ping", "record", "registry", "workers"];

/** The statements of `sql/sqlite`, by file and name: `claim.oldest`. */
export interface SqliteStatements {
  get(name: string, parameters?: SqliteRow): SqliteRow | undefined;
  all(name: string, parameters?: SqliteRow): readonly SqliteRow[];
  /** Returns how many rows the statement changed. */
  run(name: string, parameters?: SqliteRow): number;
}

/** The texts of all statements, by file and name. */
export function* statementTexts(): Generator<readonly [name: string, text: string]> {
  for (const file of statementFiles) {
    for (const [section, text] of readStatements(`sqlite/${file}.sql`)) yield [`${file}.${section}`, text];
  }
}

/**
 * The statements on one connection. Each is prepared at its first use, because libsql ends no statement before it is collected as garbage.
 */
export function statementsOn(connection: SqliteConnection): SqliteStatements & { clear(): void } {
  const texts = new Map(statementTexts());
  const prepared = new Map<string, SqliteStatement>();

  function statement(name: string): SqliteStatement {
    let found = prepared.get(name);
    if (found === undefined) {
      found = connection.prepare(texts.get(name) ?? "");
      prepared.set(name, found);
    }
    return found;
  }

  return {
    get: (name, parameters) => statement(name).get(parameters),
    all: (name, parameters) => statement(name).all(parameters),
    run: (name, parameters) => statement(name).run(parameters),
    clear: () => prepared.clear(),
  };
}

/** The same statements for one namespace. Each gets its `namespace_id`. */
export function statementsFor(sql: SqliteStatements, namespace_id: number): SqliteStatements {
  return {
    get: (name, parameters) => sql.get(name, { namespace_id, ...parameters }),
    all: (name, parameters) => sql.all(name, { namespace_id, ...parameters }),
    run: (name, parameters) => sql.run(name, { namespace_id, ...parameters }),
  };
}
