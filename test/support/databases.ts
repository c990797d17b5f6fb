import { mariadbMissing, MariadbServer } from "./mariadb.ts";
import { mysqlMissing, startMysql } from "./mysql.ts";
import { postgresMissing, PostgresServer } from "./postgres.ts";
import type { ServerProcess } from "./servers.ts";

/** A database server of the test's own. */
export interface DatabaseServer {
  readonly process: ServerProcess;
  readonly port: number;
  url(query?: string): string;
  /** One statement by a client of the test's own. */
  query(text: string): Promise<Record<string, unknown>[]>;
  /** Ends it at once, as if its machine had stopped. */
  kill(): Promise<void>;
  /** Starts it again, with its saved data. */
  start(): Promise<void>;
  remove(): Promise<void>;
}

/** A kind of database that the test can start here. */
export interface Database {
  readonly name: "mariadb" | "mysql" | "postgres";
  readonly dialect: "mysql" | "postgres";
  /** The reason why it cannot. */
  readonly missing: string | undefined;
  start(): Promise<DatabaseServer>;
}

/** Every kind. */
export const databases: readonly Database[] = [
  { name: "postgres", dialect: "postgres", missing: postgresMissing, start: () => PostgresServer.start() },
  { name: "mariadb", dialect: "mysql", missing: mariadbMissing, start: () => MariadbServer.start() },
  { name: "mysql", dialect: "mysql", missing: mysqlMissing, start: () => startMysql() },
];
