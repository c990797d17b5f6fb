import { statSync } from "node:fs";
import type { GrantingStore } from "./rule/registry.ts";

/** Identifies a file: another file under the same path has another device or inode. */
export interface FileIdentity {
  /** Absolute. Each look follows links. */
  readonly path: string;
  readonly device: bigint;
  readonly inode: bigint;
}

/** A store in one file. Keep the file open: a new file may get the inode of a deleted one. */
export class StoreFile implements GrantingStore {
  /** The file at this path now; undefined if there is none, or if this user cannot see it. */
  static at(path: string): StoreFile | undefined {
    const found = look(path);
    return found && new StoreFile({ path, device: found.dev, inode: found.ino });
  }

  readonly #identity: FileIdentity;

  constructor(identity: FileIdentity) {
    this.#identity = identity;
  }

  get identity(): FileIdentity {
    return this.#identity;
  }

  /** What is at the path now, by one `stat`. A missing file may come back. */
  get state(): "same" | "missing" | "replaced" {
    const { path, device, inode } = this.#identity;
    const found = look(path);
    if (found === undefined) return "missing";
    return found.ino === inode && found.dev === device ? "same" : "replaced";
  }

  get isReplaced(): boolean {
    return this.state === "replaced";
  }
}

function look(path: string): { readonly dev: bigint; readonly ino: bigint } | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    // This user may not enter a folder of the path, or it is no folder any more.
    return undefined;
  }
}
