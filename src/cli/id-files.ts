import { accessSync, constants, createReadStream, fstatSync, statSync } from "node:fs";
import { type IdInput, unreadable } from "../ops/audit/id-lines.ts";

const chunkSize = 256 * 1024;

/** The inputs, and their size in bytes if it is known. Refuses a missing file before it reads another file. */
export function sourcesOf(paths: readonly string[]): { readonly sources: IdInput[]; readonly size?: number } {
  const sources: IdInput[] = [];
  let size = 0;
  for (const path of paths) {
    const name = path === "-" ? "stdin" : path;
    try {
      const found = path === "-" ? fstatSync(0) : statSync(path);
      if (found.isDirectory()) throw Object.assign(new Error("it is a folder"), { code: "EISDIR" });
      if (path !== "-") accessSync(path, constants.R_OK);
      size = found.isFile() ? size + found.size : Number.NaN;
    } catch (error) {
      throw unreadable(name, error);
    }
    sources.push({ name, chunks: path === "-" ? process.stdin : bytesOf(path) });
  }
  return { sources, ...(size > 0 && { size }) };
}

/** Opens the file when it is read. */
async function* bytesOf(path: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(path, { highWaterMark: chunkSize });
}
