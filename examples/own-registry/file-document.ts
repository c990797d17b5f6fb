// A document in a folder of a local disk: a file for each version, and `link`, which makes a name only where there is none, as the
// compare-and-set.

import { randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Document } from "./document-registry.ts";

/** So many versions stay: somebody who read one of them, and was stopped then, has to find the next one taken. */
const kept = 100;

export function fileDocument(folder: string): Document {
  const pathOf = (version: number): string => join(folder, `${version}.json`);

  async function versions(): Promise<number[]> {
    await mkdir(folder, { recursive: true });
    const names = await readdir(folder);
    const numbers = names.filter((name) => /^\d+\.json$/.test(name)).map((name) => Number.parseInt(name, 10));
    return numbers.toSorted((a, b) => a - b);
  }

  return {
    async read() {
      for (;;) {
        const version = (await versions()).at(-1);
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
        await sync(folder); // the name, too, has to survive a power loss before anybody is told
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
        throw error;
      } finally {
        await rm(draft);
      }
      const all = await versions();
      for (const old of all.slice(0, -kept)) await rm(pathOf(old), { force: true });
      return all.at(-1) === version + 1;
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
