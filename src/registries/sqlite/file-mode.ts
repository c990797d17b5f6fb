import { chmodSync, chownSync, closeSync, lstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { beside } from "./file.ts";

const others = 0o007;
const groupWrites = 0o020;

/**
 * Makes an empty file that only this user may read, since the tokens of leases stand in it; where a group may write to the folder, its group may,
 * too, as far as the umask lets it. SQLite gives the files beside it the same mode. A file that is there stays as it is.
 */
export function makePrivateFile(path: string): void {
  try {
    const isShared = (statSync(dirname(path)).mode & groupWrites) !== 0;
    closeSync(openSync(path, "wx", isShared ? 0o660 : 0o600));
  } catch {
    // It is there, or SQLite says better what is wrong.
  }
}

/**
 * Gives the files beside a registry its mode and group, as SQLite does when it makes them: they may have been there when somebody changed
 * those of the registry. By name, since to close a file here would drop the locks that this process has on it.
 */
export function alignModes(path: string): void {
  for (const file of beside(path)) {
    try {
      const { mode, gid } = statSync(path);
      const found = lstatSync(file);
      if (!found.isFile()) continue;
      if (found.gid !== gid) chownSync(file, found.uid, gid);
      if (found.mode !== mode) chmodSync(file, mode & 0o777);
    } catch {
      // It is gone, or another owner's.
    }
  }
}

/** Those of a registry's files that every user may read or write. */
export function exposedFiles(path: string): readonly string[] {
  return [path, ...beside(path)].filter((file) => {
    const found = statSync(file, { throwIfNoEntry: false });
    return found !== undefined && (found.mode & others) !== 0;
  });
}

/** Registries of which this process has told. */
const told = new Set<string>();

/** Warns once in a process of a registry that every user may read: it may be meant, or be another owner's to change. */
export function warnOfExposure(path: string): void {
  // Elsewhere a mode says little.
  if (process.getuid === undefined || told.has(path)) return;
  const exposed = exposedFiles(path);
  if (exposed.length === 0) return;
  told.add(path);
  process.emitWarning(exposureText(exposed), { type: "SnowleaseWarning", code: "SNOWLEASE_EXPOSED" });
}

/** What is wrong with such files, and what to do. */
export function exposureText(files: readonly string[]): string {
  return `Every user of this machine may open the registry file ${files[0]}, and with the tokens in it end leases: run \`chmod o-rwx ${files.join(" ")}\`.`;
}
