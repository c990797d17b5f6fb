import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";
import { SnowleaseError } from "../id/errors.ts";
import { utf8Text } from "../id/utf8.ts";
import type { Log } from "./log.ts";

const maxBytes = 1024 * 1024;
const [othersRead, othersWrite] = [0o004, 0o002];

/**
 * Reads a file on which access to the daemon depends. @param name of the option with the path, for the message.
 * @param log gets a warning when every user can read the file. Default: no warning.
 * @throws SnowleaseError CONFIG_INVALID if it is not a regular file, has more than 1 MiB, is not UTF-8, or every user can write it.
 */
export function readGuardedFile(path: string, name: string, log?: Log): string {
  const refuse = (what: string, cause?: unknown): never => {
    throw new SnowleaseError("CONFIG_INVALID", `The file ${path} of \`${name}\` ${what}.`, {}, { cause });
  };
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    const stat = fstatSync(file);
    const { mode, size } = stat;
    if (!stat.isFile()) refuse("is not a regular file; name one that is");
    if (size > maxBytes) refuse(`has ${size} bytes, and at most ${maxBytes} are read; name the right one`);
    if ((mode & othersWrite) !== 0) refuse("can be written by every user; take that right away: chmod o-rwx");
    if ((mode & othersRead) !== 0) {
      const what = `${path} can be read by every user; take that right away: chmod o-rwx`;
      log?.warn({ event: "exposed", file: path }, what);
    }
    return utf8Text(readFileSync(file)) ?? refuse("is not UTF-8; save it as UTF-8");
  } catch (cause) {
    if (cause instanceof SnowleaseError) throw cause;
    return refuse(`cannot be read (${(cause as NodeJS.ErrnoException).code}); mend its path or its permissions`, cause);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
