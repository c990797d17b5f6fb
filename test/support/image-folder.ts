import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** The file of a program in PATH, or of a path, without links. */
export function whereIs(program: string): string {
  return realpathSync(execFileSync("sh", ["-c", 'command -v "$0"', program], { encoding: "utf8" }).trim());
}

/** The root folder of an image. It is made of this machine's files, since no image can be fetched. */
export class ImageFolder {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
    for (const name of ["tmp", "opt", "proc", "dev", "etc"]) mkdirSync(join(root, name), { recursive: true });
    chmodSync(join(root, "tmp"), 0o1777);
  }

  /** The file in this folder for this path in the image. Makes sure that its parent folder exists. */
  place(path: string): string {
    const place = join(this.#root, path);
    mkdirSync(dirname(place), { recursive: true });
    return place;
  }

  /** Adds a file or folder. Links are replaced by their targets. `to`: by default the same path. */
  add(from: string, to = from): void {
    // existsSync: the targets of some links do not exist.
    cpSync(from, this.place(to), { recursive: true, dereference: true, filter: existsSync });
  }

  /** Adds a program from this machine's PATH. `to`: by default `/usr/bin/NAME`. */
  program(name: string, to = `/usr/bin/${name}`): void {
    this.library(whereIs(name), to);
  }

  /** Adds a file of machine code, and the libraries that it needs. `to`: by default the same path. */
  library(from: string, to = from): void {
    copyFileSync(from, this.place(to));
    for (const [needed] of execFileSync("ldd", [from], { encoding: "utf8" }).matchAll(/\/\S+/g)) {
      if (!existsSync(this.place(needed))) copyFileSync(needed, this.place(needed));
    }
  }

  /** Adds all libraries of a folder, and the libraries that they need. */
  libraries(folder: string): void {
    for (const name of readdirSync(folder)) if (name.endsWith(".so")) this.library(join(folder, name));
  }

  /** Adds this machine's Java, with the libraries that it needs. */
  java(): void {
    const home = dirname(dirname(whereIs("java")));
    this.add(home);
    this.library(join(home, "bin/java"));
    for (const folder of ["lib", "lib/server"]) this.libraries(join(home, folder));
    symlinkSync(join(home, "bin/java"), this.place("/usr/bin/java"));
  }

  /** Adds a script for `sh`. */
  script(path: string, text: string): void {
    writeFileSync(this.place(path), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }

  write(path: string, text: string): void {
    writeFileSync(this.place(path), text);
  }

  /** Packs everything into one file. */
  pack(tar: string): void {
    execFileSync("tar", ["--directory", this.#root, "--create", "--file", tar, "."]);
  }
}
