import type { ServerAddress } from "../url.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { Dialect } from "./dialect.ts";

/** The dialect of a kind of database: loaded when it is named. */
export async function dialectOf(kind: ServerAddress["kind"]): Promise<Dialect> {
  switch (kind) {
    case "postgres":
      return (await import("./postgres/dialect.ts")).postgres;
    case "mysql":
      return (await import("./mysql/dialect.ts")).mysql;
    case "oracle":
      return (await import("./oracle/dialect.ts")).oracle;
    default:
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `A registry of the kind \`${kind}\` is no SQL database; name another.`,
      );
  }
}
