// A copy of the working tree in a temporary folder. A script breaks something there, and runs its tests.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { root } from "./setup.mjs";

/** What is not copied: the folders that scripts make, and the history. */
const leftOut = /^(?:node_modules|dist|dist\.\d+|coverage|\.git)$/;
/** What the scripts and vitest keep about one tree in node_modules. */
const kept = /^\.(?:cache|snowlease-build|vite|vitest)/;

export class TreeCopy {
  path = mkdtempSync(join(tmpdir(), "sl-copy-"));

  constructor() {
    cpSync(root, this.path, {
      recursive: true,
      filter: (source) => source === root || !leftOut.test(basename(source)),
    });
    mkdirSync(join(this.path, "node_modules"));
    for (const name of readdirSync(join(root, "node_modules"))) {
      if (!kept.test(name)) symlinkSync(join(root, "node_modules", name), join(this.path, "node_modules", name));
    }
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
    process.once("exit", () => rmSync(this.path, { recursive: true, force: true }));
  }

  read(file) {
    return readFileSync(join(this.path, file), "utf8");
  }

  write(file, text) {
    writeFileSync(join(this.path, file), text);
  }

  remove(file) {
    rmSync(join(this.path, file));
  }

  /** Compiles the copy. Returns the output of the compiler if it fails. */
  build() {
    const { status, stderr } = spawnSync(process.execPath, ["scripts/build.mjs"], {
      cwd: this.path,
      encoding: "utf8",
    });
    return status === 0 ? undefined : stderr;
  }
}
