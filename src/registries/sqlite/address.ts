import { statSync } from "node:fs";
import type { StoreKind } from "../store-kind.ts";
import { path, type PathParts } from "../url.ts";

interface FileParts extends PathParts {
  /** Whether the folders above a missing file are made, too. */
  readonly makesFolder?: boolean;
}

export const sqlite: StoreKind<"sqlite", FileParts> = {
  kind: "sqlite",
  schemes: { sqlite: 0 },
  // SQLite itself gives these a meaning: a database in memory would forget every window.
  grammar: path((name) => {
    if (/^(:|file:)/i.test(name)) {
      return "to name a file (one whose name begins so is written ./NAME); for a registry in memory use `memory:`";
    }
    // Elsewhere it would be a new file of that name in the current folder: a registry of its own.
    const isForeign = process.platform !== "win32" && /^[a-z]:\\/i.test(name);
    return isForeign
      ? "to have a path of this system, and not one of Windows, such as sqlite:///var/lib/ids.db"
      : undefined;
  }),
  usesHostClock: true,
  claimMakesNamespace: "at once",
  isEmpty(address) {
    try {
      const found = statSync(address.path, { throwIfNoEntry: false });
      return found === undefined || (found.isFile() && found.size === 0);
    } catch {
      // Opening says why it cannot be looked at.
      return false;
    }
  },
  schema: async () => (await import("../../assets.ts")).readSql("sqlite/schema.sql").trimEnd(),
  open: async ({ path, makesFolder }, options) =>
    (await import("./registry.ts")).sqliteRegistry({ path, makesFolder, ...options }),
};
