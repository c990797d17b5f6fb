import { readTls, type Tls, tlsParameters } from "../client-tls.ts";
import type { ServerAddress } from "../url.ts";
import { beside, integer, readParameters, refuse, type StoreParameters } from "../url-parameters.ts";

/** What only an SQL registry has: the parameters of its URL, and the database that the path names. */
export interface SqlSettings extends Tls {
  readonly poolSize: number;
  readonly beside: "westid" | undefined;
  readonly database: string;
  /** The schema with the tables. Undefined: the one that the user's login leads to. Never set if a database of this kind has no schemas. */
  readonly schema: string | undefined;
}

export const parameters: StoreParameters<Pick<SqlSettings, "poolSize" | "beside">> & typeof tlsParameters = {
  poolSize: integer(1, 100, { default: "4", meaning: "Connections at most, 1 to 100." }),
  beside,
  ...tlsParameters,
};

/** The same for a kind of database that has schemas. */
export const parametersWithSchema: typeof parameters & StoreParameters<Pick<SqlSettings, "schema">> = {
  ...parameters,
  schema: {
    meaning:
      "PostgreSQL and Oracle: the schema with the tables, the same for every user; without it, the one that the user's login leads to.",
    rule: "to be the name of a schema: a letter or `_`, then up to 62 letters, digits, `_` and `$`",
    isPlace: true,
    read: (text) => (/^[a-z_][\w$]{0,62}$/i.test(text) ? text : undefined),
  },
};

/** Reads the settings of an SQL URL. @throws SnowleaseError CONFIG_INVALID */
export function readSqlSettings({ path, servers, settings }: ServerAddress): SqlSettings {
  if (path === "" || path.includes("/")) refuse("the URL", "to end with the name of a database, /NAME", path);
  const { poolSize, ...values } = readParameters(parametersWithSchema, settings);
  if (values.tls && servers.some(({ host }) => host.startsWith("/"))) {
    refuse("`tls`", "not to be true with a socket in the file system, which no network sees", "true");
  }
  return { poolSize, beside: values.beside, schema: values.schema, ...readTls(values), database: path };
}
