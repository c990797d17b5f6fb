import { readSql } from "../sql-files.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { SqliteConnection } from "./driver.ts";

/** The number in the file's header: "Snow". */
const applicationId = 0x536e6f77;
/**
 * The version of `sql/sqlite/schema.sql`, in the file's header. It rises only if an older Snowlease must not use the file. Columns with a
 * default, tables and indexes are added without a new version, because every version keeps what it does not know.
 */
export const schemaVersion = 2;

/** @throws SnowleaseError SCHEMA_INCOMPATIBLE for a file that is neither empty nor a registry of this version. */
export function checkSchema(connection: SqliteConnection, path: string): "new" | "ours" {
  const pragma = (name: string): number => Number(connection.prepare(`PRAGMA ${name}`).get()?.[name]);
  const [application, version] = [pragma("application_id"), pragma("user_version")];
  if (application === applicationId && version === schemaVersion) return "ours";
  const tables = connection.prepare("SELECT name FROM sqlite_schema LIMIT 1").all();
  if (application === 0 && version === 0 && tables.length === 0) return "new";
  throw new SnowleaseError(
    "SCHEMA_INCOMPATIBLE",
    application === applicationId
      ? `The registry file \`${path}\` has the schema ${version}, and this version of Snowlease knows ${schemaVersion}: upgrade it, or name another file.`
      : `The file \`${path}\` is the SQLite database of another program: name another file for the registry.`,
    { path },
  );
}

/** Turns an empty file into a registry, inside a transaction. */
export function createSchema(connection: SqliteConnection): void {
  connection.exec(
    `${readSql("sqlite/schema.sql")} PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion}`,
  );
}
