// A document in a folder of a local disk: a file for each version, and `link`, which makes a name only where there is none, as the
// compare-and-set.

import { randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Document } from "./document-registry.ts";

/** So many versions stay. */
const kept = 100;

export function fileDocument(folder: string): Document {
  const pathOf = (version: number): string => join(folder, `${version}.json`);

  /** The versions that are there, in ascending order, and the last one that was removed: 0 where none was. */
  async function look(): Promise<{ readonly versions: readonly number[]; readonly removed: number }> {
    await mkdir(folder, { recursive: true });
    const names = await readdir(folder);
    const numbers = (pattern: RegExp): number[] =>
      names.filter((name) => pattern.test(name)).map((name) => Number.parseInt(name, 10));
    const versions = numbers(/^\d+\.json$/).toSorted((a, b) => a - b);
    return { versions, removed: Math.max(0, ...numbers(/^\d+\.removed$/)) };
  }

  /** Says first which versions are to go: their names must not look free to a writer that was stopped for long. */
  async function prune(versions: readonly number[], removed: number): Promise<void> {
    if (versions.length < 2 * kept) return;
    const last = (versions.at(-kept) ?? 1) - 1;
    await write(join(folder, `${last}.removed`), "").catch(present);
    await sync(folder);
    for (const old of versions.slice(0, -kept)) await rm(pathOf(old), { force: true });
    if (removed > 0 && removed < last) await rm(join(folder, `${removed}.removed`), { force: true });
  }

  return {
    async read() {
      for (;;) {
        const version = (await look()).versions.at(-1);
        if (version === undefined) return { version: 0, text: "" };
        const text = await readFile(pathOf(version), "utf8").catch(absent);
        if (text !== undefined) return { version, text };
      }
    },

    async replace(version, text) {
      const draft = join(folder, `${randomUUID()}.draft`);
      await write(draft, text);
      try {
        await link(draft, pathOf(version + 1));
        await sync(folder); // the name, too, has to survive a power loss before any answer
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
        throw error;
      } finally {
        await rm(draft);
      }
      const { versions, removed } = await look();
      // The name was free because its first version is gone; or this one was removed, and had been the newest.
      if (version < removed) throw new Error(`version ${version + 1} of the document in ${folder} is too old`);
      await prune(versions, removed);
      return true;
    },
  };
}

async function write(path: string, text: string): Promise<void> {
  const file = await open(path, "wx");
  await file.writeFile(text);
  await file.sync();
  await file.close();
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder);
  await handle.sync();
  await handle.close();
}

/** Removed since it was listed: there is a newer one. */
function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** Another client has said the same. */
function present(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
