import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from "node:fs";
import { configInvalid, isSnowleaseError } from "../id/errors.ts";
import { utf8Text } from "../id/utf8.ts";

const maxFileBytes = 1024 * 1024;
const [groupWrites, othersWrite] = [0o020, 0o002];

/**
 * The object in a config file; empty if the file neither exists nor was named.
 * @param named whether a flag or the environment names the file. Any other file has to belong to this user or root.
 */
export function readConfigFile(path: string, named: boolean): object {
  const refuse = (what: string, cause?: unknown): never => {
    throw configInvalid(`The config file ${path} ${what}.`, cause);
  };
  let bytes: Uint8Array;
  let file: number | undefined;
  try {
    // Without O_NONBLOCK, a named pipe would block here.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = fstatSync(file);
    if (!stat.isFile()) refuse("is not a regular file; name a regular file");
    if (stat.size > maxFileBytes)
      refuse(`has ${stat.size} bytes, more than the limit of ${maxFileBytes}; name the right file`);
    if (!named) checkOwner(stat, refuse);
    bytes = readFileSync(file);
  } catch (cause) {
    if (isSnowleaseError(cause)) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT") return refuse(`cannot be read (${code}); correct its permissions`, cause);
    return named ? refuse("does not exist; name another file, or none", cause) : {};
  } finally {
    if (file !== undefined) closeSync(file);
  }
  const text = utf8Text(bytes) ?? refuse("is not UTF-8; save it as UTF-8");
  const value = parsed(text, refuse);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  const what = value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
  return refuse(`holds ${what}; it has to be one JSON object`);
}

/** Refuses a file that another user may have created or changed. */
function checkOwner({ uid, gid, mode }: Stats, refuse: (what: string) => never): void {
  const { getuid, getgid } = process;
  // Not on Windows.
  if (getuid === undefined || getgid === undefined) return;
  const instead = "or name the file with --config to use it nevertheless";
  if (uid !== getuid() && uid !== 0) refuse(`belongs to another user (uid ${uid}); change its owner, ${instead}`);
  if ((mode & othersWrite) !== 0) refuse(`is writable for every user; remove that permission (chmod o-w), ${instead}`);
  if ((mode & groupWrites) !== 0 && gid !== getgid()) {
    refuse(`is writable for another group (gid ${gid}); remove that permission (chmod g-w), ${instead}`);
  }
}

function parsed(text: string, refuse: (what: string) => never): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The message of JSON.parse may quote a password from the file: take only the position.
    const [, position] = /position (\d+)/.exec(String(cause)) ?? [];
    const before = text.slice(0, Number(position ?? 0)).split("\n");
    const place = position === undefined ? "" : ` (line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1})`;
    return refuse(`is not JSON${place}; correct it`);
  }
}
