import type { StoreKind } from "../store-kind.ts";
import { type Scheme, type ServerParts, servers as serversOf } from "../url.ts";
import type { Dialect } from "./dialect.ts";
import { mysqlPool } from "./mysql/client.ts";
import { postgresPool } from "./postgres/client.ts";
import { parameters, parametersWithSchema, readSqlSettings } from "./settings.ts";

function server(port: number, socket?: Scheme["socket"]): Scheme {
  const insteadOfList =
    "write the address of the primary, the same in every program, or of what always leads to it (a proxy, a name in DNS)";
  return { port, insteadOfList, ...(socket && { socket }) };
}

const database: Pick<StoreKind<Dialect["kind"], ServerParts>, "grammar" | "parameters" | "schema" | "open"> = {
  grammar: serversOf,
  parameters,
  schema: async (address, namespace) => {
    const [{ schemaText }, { schema }] = [await import("./schema.ts"), readSqlSettings(address)];
    return schemaText({ kind: address.kind, schema }, namespace);
  },
  open: async (address, { operationTimeout }) =>
    (await import("./registry.ts")).sqlRegistry(address, { operationTimeout }),
};

export const mysql: StoreKind<"mysql", ServerParts> = {
  ...database,
  kind: "mysql",
  schemes: { mysql: server(3306, { parameters: ["socketPath", "unix_socket"], what: "a socket" }) },
  aliases: { mariadb: "mysql" },
  clientTarget: mysqlPool,
};

export const oracle: StoreKind<"oracle", ServerParts> = {
  ...database,
  kind: "oracle",
  parameters: parametersWithSchema,
  schemes: { oracle: server(1521) },
};

export const postgres: StoreKind<"postgres", ServerParts> = {
  ...database,
  kind: "postgres",
  parameters: parametersWithSchema,
  schemes: { postgres: server(5432, { parameters: ["host"], what: "the folder of its socket", hasPort: true }) },
  aliases: { postgresql: "postgres" },
  clientTarget: postgresPool,
};
