import type { StoreKind } from "../store-kind.ts";
import { type Scheme, servers, type ServerAddress, type ServerParts } from "../url.ts";
import {
  beside,
  integer,
  readParameters,
  readTls,
  refuse,
  type StoreParameters,
  type Tls,
  tlsParameters,
} from "../url-parameters.ts";
import type { Dialect } from "./dialect.ts";
import { mysqlPool } from "./mysql/client.ts";
import { postgresPool } from "./postgres/client.ts";

/** What only an SQL registry has: parameters of its URL, and what the path says. */
export interface SqlSettings extends Tls {
  readonly poolSize: number;
  readonly beside: "westid" | undefined;
  readonly database: string;
}

const parameters: StoreParameters<Omit<SqlSettings, "database">> = {
  poolSize: integer(1, 100, { default: "4", meaning: "Connections at most, 1 to 100." }),
  beside,
  ...tlsParameters,
};

function server(port: number): Scheme {
  const insteadOfList =
    "write the address of the primary, the same in every program, or of what always leads to it (a proxy, a name in DNS)";
  return { port, insteadOfList };
}

const database: Pick<StoreKind<Dialect["kind"], ServerParts>, "grammar" | "parameters" | "schema" | "open"> = {
  grammar: servers,
  parameters,
  schema: async ({ kind }, namespace) => (await import("./init.ts")).schemaText(kind, namespace),
  open: async (address, { operationTimeout }) =>
    (await import("./registry.ts")).sqlRegistry(address, { operationTimeout }),
};

export const mysql: StoreKind<"mysql", ServerParts> = {
  ...database,
  kind: "mysql",
  schemes: { mysql: server(3306) },
  clientTarget: mysqlPool,
};

export const oracle: StoreKind<"oracle", ServerParts> = {
  ...database,
  kind: "oracle",
  schemes: { oracle: server(1521) },
};

export const postgres: StoreKind<"postgres", ServerParts> = {
  ...database,
  kind: "postgres",
  schemes: { postgres: server(5432) },
  clientTarget: postgresPool,
};

/** Reads the settings of an SQL URL. @throws SnowleaseError CONFIG_INVALID */
export function readSqlSettings({ path, settings }: ServerAddress): SqlSettings {
  if (path === "" || path.includes("/")) refuse("the URL", "to end with the name of a database, /NAME", path);
  const values = readParameters(parameters, settings);
  return { ...values, ...readTls(values), database: path };
}
