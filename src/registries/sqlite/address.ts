import { statSync } from "node:fs";
import type { StoreKind } from "../store-kind.ts";
import { path, type PathParts } from "../url.ts";

export const sqlite: StoreKind<"sqlite", PathParts> = {
  kind: "sqlite",
  schemes: { sqlite: {} },
  // SQLite gives these names a special meaning. A database in memory would forget every window.
  grammar: path((name) =>
    /^(:|file:)/i.test(name)
      ? "to name a file (one whose name begins so is written ./NAME); for a registry in memory use `memory:`"
      : undefined,
  ),
  usesHostClock: true,
  claimMakesNamespace: "at once",
  isEmpty(address) {
    try {
      const found = statSync(address.path, { throwIfNoEntry: false });
      return found === undefined || (found.isFile() && found.size === 0);
    } catch {
      // When the file is opened, the error says why it cannot be read.
      return false;
    }
  },
  schema: async () => (await import("../sql-files.ts")).readSql("sqlite/schema.sql").trimEnd(),
  open: async (address, options) => (await import("./registry.ts")).sqliteRegistry({ path: address.path, ...options }),
};
