import { isSnowleaseError, SnowleaseError } from "../../../id/errors.ts";
import type { SqlRow } from "../../../registries/sql/dialect.ts";
import { openDatabase } from "../../../registries/sql/database.ts";
import type { SourceRequest } from "../source.ts";

/** Reads a database by one SELECT. `what`: what the SELECT reads, for messages. */
export async function readSql(
  { address, operationTimeout }: SourceRequest,
  select: string,
  what: string,
): Promise<readonly SqlRow[]> {
  const database = await openDatabase(address, { operationTimeout });
  try {
    return await database.execute("default", { repeatable: true }, ({ tx }) => tx.execute(select));
  } catch (error) {
    if (!isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) throw error;
    throw new SnowleaseError(
      "NOT_FOUND",
      `There is no ${what} as it should be at ${address.redacted}; name the database of the old scheme.`,
      {},
      { cause: error },
    );
  } finally {
    database.close();
  }
}

/** A column as text. Undefined if it is empty. */
export function column(row: SqlRow, name: string): string | undefined {
  const value = row[name];
  if (value === null || value === undefined) return undefined;
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : String(value);
}
