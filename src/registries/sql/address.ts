import { readTls, type Tls, tlsParameters } from "../client-tls.ts";
import type { StoreKind } from "../store-kind.ts";
import { type Scheme, type ServerAddress, type ServerParts, servers as serversOf } from "../url.ts";
import { beside, integer, readParameters, refuse, type StoreParameters } from "../url-parameters.ts";
import type { Dialect } from "./dialect.ts";
import { mysqlPool } from "./mysql/client.ts";
import { postgresPool } from "./postgres/client.ts";

/** What only an SQL registry has: parameters of its URL, and what the path says. */
export interface SqlSettings extends Tls {
  readonly poolSize: number;
  readonly beside: "westid" | undefined;
  readonly database: string;
  /** With the tables. Undefined: the one that the user's login leads to; never set where a database has no schemas in it. */
  readonly schema: string | undefined;
}

const parameters = {
  poolSize: integer(1, 100, { default: "4", meaning: "Connections at most, 1 to 100." }),
  beside,
  ...tlsParameters,
} satisfies StoreParameters;

const schema: StoreParameters<Pick<SqlSettings, "schema">> = {
  schema: {
    meaning:
      "PostgreSQL and Oracle: the schema with the tables, the same for every user; without it, the one that the user's login leads to.",
    rule: "to be the name of a schema: a letter or `_`, then up to 62 letters, digits, `_` and `$`",
    isPlace: true,
    read: (text) => (/^[a-z_][\w$]{0,62}$/i.test(text) ? text : undefined),
  },
};

function server(port: number, socket?: Scheme["socket"]): Scheme {
  const insteadOfList =
    "write the address of the primary, the same in every program, or of what always leads to it (a proxy, a name in DNS)";
  return { port, insteadOfList, ...(socket && { socket }) };
}

const database: Pick<StoreKind<Dialect["kind"], ServerParts>, "grammar" | "parameters" | "schema" | "open"> = {
  grammar: serversOf,
  parameters,
  schema: async (address, namespace) => {
    const [{ schemaText }, { schema }] = [await import("./init.ts"), readSqlSettings(address)];
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
  parameters: { ...parameters, ...schema },
  schemes: { oracle: server(1521) },
};

export const postgres: StoreKind<"postgres", ServerParts> = {
  ...database,
  kind: "postgres",
  parameters: { ...parameters, ...schema },
  schemes: { postgres: server(5432, { parameters: ["host"], what: "the folder of its socket", hasPort: true }) },
  aliases: { postgresql: "postgres" },
  clientTarget: postgresPool,
};

/** Reads the settings of an SQL URL. @throws SnowleaseError CONFIG_INVALID */
export function readSqlSettings({ path, servers, settings }: ServerAddress): SqlSettings {
  if (path === "" || path.includes("/")) refuse("the URL", "to end with the name of a database, /NAME", path);
  const { poolSize, ...values } = readParameters({ ...parameters, ...schema }, settings);
  if (values.tls && servers.some(({ host }) => host.startsWith("/"))) {
    refuse("`tls`", "not to be true with a socket in the file system, which no network sees", "true");
  }
  return { poolSize, beside: values.beside, schema: values.schema, ...readTls(values), database: path };
}
