import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Copies a registry's file, which may be in use. */
export async function backUp(path: string, copy: string): Promise<void> {
  await run("sqlite3", ["-cmd", ".timeout 5000", path, `.backup ${copy}`]);
}

/** Writes a copy into a registry's file, which may be in use. */
export async function restore(path: string, copy: string): Promise<void> {
  await run("sqlite3", ["-cmd", ".timeout 5000", path, `.restore ${copy}`]);
}
