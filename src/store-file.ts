import { statSync } from "node:fs";
import type { GrantingStore } from "./rule/registry.ts";

/** A file, told by its device and inode from another one under its name. */
export interface FileIdentity {
  /** Absolute. Links are followed each time. */
  readonly path: string;
  readonly device: bigint;
  readonly inode: bigint;
}

/** A store that is one file. It has to be kept open: the numbers of a file that is gone may be those of the next one. */
export class StoreFile implements GrantingStore {
  /** The file that stands there now; undefined where there is none, or none that can be looked at. */
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

  /** What stands under its name now: one look at the file system. A file that is missing may come back. */
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
    // A folder on the way is closed to us, or no folder any more.
    return undefined;
  }
}
