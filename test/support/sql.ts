import { parseAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { SqlAddress } from "../../src/registries/sql/database.ts";
import { sqlRegistry } from "../../src/registries/sql/registry.ts";

/** A registry at the URL of an SQL database. */
export function openSql(url: string, operationTimeout = 5000): Promise<Registry> {
  return sqlRegistry(parseAddress(url) as SqlAddress, { operationTimeout });
}
