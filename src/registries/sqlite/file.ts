import { accessSync, constants, mkdirSync, readFileSync, realpathSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { shown, SnowleaseError } from "../../id/errors.ts";

/*
 * What is known about a registry's file without opening it. To open and close the file here would do harm: when a process closes any
 * descriptor of a file, POSIX drops all locks that the process has on the file, including those of an open registry.
 */

/** The smallest size of a database, bytes. SQLite would take a file of one byte for an empty one, and overwrite it. */
const smallestDatabase = 512;

/** Kinds of file systems (statfs's f_type) on which two hosts do not see each other's locks, or do not share memory. */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"],
]);

/**
 * Checks that a registry can be stored there, and creates a missing folder (mode 0700). Returns the absolute path, with links resolved.
 * @throws SnowleaseError CONFIG_INVALID
 */
export function prepareFile(given: string): string {
  if (typeof given !== "string" || given === "" || given.includes("\0")) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected the registry's \`path\` to be the name of a file, got ${shown(given)}.`,
    );
  }
  const path = resolve(given);
  try {
    return checkFile(path, /[/\\]$/.test(given));
  } catch (cause) {
    if (cause instanceof SnowleaseError) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    const advice = "give this user read and write access to it and to its folder, or name another file";
    throw unusable(path, `cannot be used (${code ?? message}): ${advice}.`, { cause });
  }
}

function unusable(path: string, problem: string, options?: ErrorOptions): SnowleaseError {
  return new SnowleaseError("CONFIG_INVALID", `The registry file \`${path}\` ${problem}`, { path }, options);
}

function checkFile(path: string, asFolder: boolean): string {
  const found = statSync(path, { throwIfNoEntry: false });
  if (asFolder || found?.isFile() === false) {
    const what = asFolder || found?.isDirectory() === true ? "a folder" : "not a regular file";
    throw unusable(path, `is ${what}; name a file.`);
  }
  if (found !== undefined && found.size > 0 && found.size < smallestDatabase) {
    throw unusable(path, "is not a database: name another file.");
  }
  if (found !== undefined && found.nlink > 1) {
    // A process that opens the file by another name writes to another log.
    throw unusable(
      path,
      `has ${found.nlink} names (hard links), and would have a log under each: remove all but one (\`find DIR -samefile ${path}\` lists them), or link to it with \`ln -s\`.`,
    );
  }
  const file = found === undefined ? path : realpathSync(path);
  const folder = dirname(file);
  if (found === undefined) mkdirSync(folder, { recursive: true, mode: 0o700 });
  else accessSync(file, constants.R_OK | constants.W_OK);
  accessSync(folder, constants.W_OK | constants.X_OK);
  checkFileSystem(statfsSync(folder).type, file);
  checkMount(file);
  checkLog(file);
  return file;
}

/** Refuses file systems on which the write-ahead log does not work between hosts. `type`: statfs's f_type. */
export function checkFileSystem(type: number, path: string): void {
  const name = networkFileSystems.get(type);
  if (name === undefined) return;
  throw unusable(
    path,
    `is on a network file system (${name}), where hosts do not see each other's locks; name a file on a local disk, or let a daemon share it.`,
  );
}

/** Refuses a file that is itself a mount, as containers can make it. No process outside would see its log. */
function checkMount(file: string): void {
  const escaped = file.replace(/[ \t\n\\]/g, (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`);
  let mounts = "";
  try {
    mounts = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    // Not Linux.
  }
  if (mounts.split("\n").every((line) => line.split(" ")[4] !== escaped)) return;
  throw unusable(file, "is mounted by itself, and its log would not be that of others; mount its folder.");
}

/** Refuses a file that is missing or empty although its log is not. The windows in it are lost, and might be granted again. */
function checkLog(file: string): void {
  // The log is checked first, because a process that creates a registry at this moment writes the file before the log.
  if (sizeOf(`${file}-wal`) === 0 || sizeOf(file) > 0) return;
  throw unusable(
    file,
    `is missing or empty, but its log \`${file}-wal\` is not: put the file back, or remove the log to start anew.`,
  );
}

/** Whether a process uses a database, or crashed while it did. */
export function hasLog(file: string): boolean {
  return sizeOf(`${file}-wal`) > 0 || sizeOf(`${file}-journal`) > 0;
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** The files that SQLite keeps beside an open registry: its log, which contains the last writes, and the log's index. */
export function beside(file: string): readonly [log: string, index: string] {
  return [`${file}-wal`, `${file}-shm`];
}

export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
