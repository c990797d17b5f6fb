import { chmodSync, chownSync, closeSync, lstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { beside } from "./file.ts";

const otherUsers = 0o007;
const groupWrites = 0o020;

/**
 * Creates an empty file that only this user may read, because it contains the key of receipts. If a group may write to the folder, the
 * group may also read and write the file, within the umask. SQLite gives the files beside it the same mode. An existing file stays as it
 * is. Returns whether it made a file.
 */
export function makePrivateFile(path: string): boolean {
  try {
    const isShared = (statSync(dirname(path)).mode & groupWrites) !== 0;
    closeSync(openSync(path, "wx", isShared ? 0o660 : 0o600));
    return true;
  } catch {
    // The file exists, or SQLite's error describes the problem better.
    return false;
  }
}

/**
 * Gives the files beside a registry its mode and group, as SQLite does when it creates them. They may be older than a change of the
 * registry's mode. This uses names, because to close a file here would drop the locks that this process has on it.
 */
export function alignModes(path: string): void {
  for (const file of beside(path)) if (lstatSync(file, { throwIfNoEntry: false })?.isFile()) alignMode(file, path);
}

/** Gives a path the group of another one, and its mode as far as `mask` allows. Changes nothing if this user may not. */
export function alignMode(path: string, like: string, mask = 0o777): void {
  try {
    const { mode, gid } = statSync(like);
    const own = statSync(path);
    if (own.gid !== gid) chownSync(path, own.uid, gid);
    if (own.mode !== mode) chmodSync(path, mode & mask);
  } catch {
    // One of the files is gone, or belongs to another user.
  }
}

/** The files of a registry that every user may read or write. */
export function exposedFiles(path: string): readonly string[] {
  return [path, ...beside(path)].filter((file) => {
    const { mode = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
    return (mode & otherUsers) !== 0;
  });
}

/** The registries about which this process has warned. */
const warned = new Set<string>();

/**
 * Warns, once in a process, about a registry that every user may read. That may be intended, or only another user may be able to change it.
 */
export function warnOfExposure(path: string): void {
  // On other systems a mode means little.
  if (process.getuid === undefined || warned.has(path)) return;
  const exposed = exposedFiles(path);
  if (exposed.length === 0) return;
  warned.add(path);
  process.emitWarning(exposureText(exposed), { type: "SnowleaseWarning", code: "SNOWLEASE_EXPOSED" });
}

/** What is wrong with such files, and what to do. */
export function exposureText(files: readonly string[]): string {
  return `Every user of this machine may open the registry file ${files[0]}, and with the key in it forge receipts, which begin quarantines: run \`chmod o-rwx ${files.join(" ")}\`.`;
}
