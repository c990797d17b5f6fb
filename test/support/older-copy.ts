import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { DatabaseServer } from "./databases.ts";

const execute = promisify(execFile);

/** Puts an older copy of a namespace's tables back in their place, as an operator does it in this kind of database. */
export type PutBack = () => Promise<void>;

/** The most times that a restore is repeated. */
const mostTries = 10;

/** The tables of a namespace. */
export const namesOf = (namespace: string): readonly string[] =>
  ["assign", "window", "history", "meta"].map((name) => `workerid_${name}_${namespace}`);

/**
 * Dumps the tables. With that dump, `pg_restore` drops the present tables, makes them anew and fills one after the other. With
 * `--single-transaction` it does all of it at once.
 */
export async function dumpOfPostgres(
  server: Pick<DatabaseServer, "process" | "url">,
  namespace: string,
  ...more: readonly string[]
): Promise<PutBack> {
  const file = join(server.process.folder, `${namespace}-${crypto.randomUUID()}.dump`);
  const run = async (program: string, ...args: readonly string[]): Promise<void> => {
    await execute(program, [...args, `--dbname=${server.url()}`]);
  };
  await run("pg_dump", "--format=custom", `--file=${file}`, ...namesOf(namespace).map((name) => `--table=${name}`));
  return async () => {
    // Holders write meanwhile, also after the rows are there and before the index is made. Then the restore fails, and an operator
    // repeats it.
    for (let tries = 0; ; tries++) {
      try {
        return await run("pg_restore", "--clean", "--if-exists", ...more, file);
      } catch (error) {
        if (tries === mostTries || !String(error).includes("could not create unique index")) throw error;
      }
    }
  };
}

/** Copies the tables. Like a dump of `mysqldump`, the copy drops the present tables, makes them anew and fills one after the other. */
export async function copyOfMysql(server: DatabaseServer, namespace: string): Promise<PutBack> {
  for (const name of namesOf(namespace)) {
    await server.query(`CREATE TABLE saved_${name} LIKE ${name}`);
    await server.query(`INSERT INTO saved_${name} SELECT * FROM ${name}`);
  }
  return async () => {
    for (const name of namesOf(namespace)) {
      await server.query(`DROP TABLE ${name}`);
      await server.query(`CREATE TABLE ${name} LIKE saved_${name}`);
      await server.query(`INSERT INTO ${name} SELECT * FROM saved_${name}`);
    }
  };
}

/** Copies the rows, for another kind of database than the two above. */
export async function rowsOf(server: DatabaseServer, namespace: string): Promise<PutBack> {
  for (const name of namesOf(namespace)) {
    await server.query(`CREATE TABLE saved_${name} AS (SELECT * FROM ${name}) WITH DATA`);
  }
  return async () => {
    for (const name of namesOf(namespace)) {
      await server.query(`DELETE FROM ${name}`);
      await server.query(`INSERT INTO ${name} SELECT * FROM saved_${name}`);
    }
  };
}
