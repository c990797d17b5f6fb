import { mariadbMissing, MariadbServer } from "./mariadb.ts";
import { mysqlMissing, startMysql } from "./mysql.ts";
import { postgresMissing, PostgresServer } from "./postgres.ts";
import type { ServerProcess } from "./servers.ts";
import type { Program } from "./store-server.ts";

/** A database server of the test's own. */
export interface DatabaseServer {
  readonly process: ServerProcess;
  readonly port: number;
  url(query?: string): string;
  /** Runs one statement by a client of the test's own. */
  query(text: string): Promise<Record<string, unknown>[]>;
  /** Ends the server at once, as if its machine had stopped. */
  kill(): Promise<void>;
  /** Starts the server again, with the data that it had saved. */
  start(): Promise<void>;
  remove(): Promise<void>;
}

/** A kind of database that a test can start here. */
export interface Database extends Program<DatabaseServer> {
  readonly name: "mariadb" | "mysql" | "postgres";
  readonly dialect: "mysql" | "postgres";
}

/** The databases as programs that a test can start. */
export const postgresProgram: Program<PostgresServer> = {
  missing: postgresMissing,
  start: () => PostgresServer.start(),
};
export const mariadbProgram: Program<MariadbServer> = { missing: mariadbMissing, start: () => MariadbServer.start() };
export const mysqlProgram: Program<MariadbServer> = { missing: mysqlMissing, start: () => startMysql() };

/** Every kind of database. */
export const databases: readonly Database[] = [
  { name: "postgres", dialect: "postgres", ...postgresProgram },
  { name: "mariadb", dialect: "mysql", ...mariadbProgram },
  { name: "mysql", dialect: "mysql", ...mysqlProgram },
];
