import { parseAddress } from "../../src/core/address.ts";
import type { Registry } from "../../src/core/registry.ts";
import type { SqlAddress } from "../../src/registries/sql/operations.ts";
import { sqlRegistry } from "../../src/registries/sql/registry.ts";

/** A registry at the URL of an SQL database. */
export function openSql(url: string, operationTimeout = 5000): Promise<Registry> {
  return sqlRegistry(parseAddress(url) as SqlAddress, { operationTimeout });
}
