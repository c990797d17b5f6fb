import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The files of an image that is made of this machine's own files, since no image can be fetched. */
export class ImageRoot {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    for (const name of ["tmp", "proc", "dev"]) this.makeFolder(name);
    chmodSync(join(folder, "tmp"), 0o1777);
  }

  makeFolder(path: string, mode = 0o755): void {
    mkdirSync(join(this.folder, path), { recursive: true });
    chmodSync(join(this.folder, path), mode);
  }

  write(path: string, text: string, mode = 0o644): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text, { mode });
  }

  copy(from: string, to: string = from): void {
    mkdirSync(dirname(join(this.folder, to)), { recursive: true });
    copyFileSync(from, join(this.folder, to));
  }

  copyFolder(from: string, to: string = from): void {
    cpSync(from, join(this.folder, to), { recursive: true, dereference: true });
  }

  /** A program or a library, and the libraries that it needs. */
  copyLinked(from: string, to: string = from): void {
    this.copy(from, to);
    for (const [library] of execFileSync("ldd", [from], { encoding: "utf8" }).matchAll(/\/\S+/g)) this.copy(library);
  }

  /** A program of this machine's path, as `/bin/NAME`. */
  copyProgram(name: string): void {
    this.copyLinked(pathOf(name), `bin/${name}`);
  }
}

/** Where a program of this machine's path is. */
export function pathOf(name: string): string {
  return realpathSync(execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim());
}
