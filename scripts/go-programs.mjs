// The programs that tests run and that are built with Go: once for each version of their source, in a folder of this user's caches.
// `node scripts/go-programs.mjs NAME` prints the path of one.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Where their sources are, below test/support. */
const sources = { "kubernetes-api": "kubernetes", "power-loss": "power-loss" };
export const goPrograms = Object.keys(sources);
/** A build that takes longer was killed, ms. */
const longestBuild = 1_200_000;

/** Why a program cannot be built here, or undefined. */
export function goProgramMissing(name) {
  if (existsSync(programFile(name))) return undefined;
  if (spawnSync("go", ["version"]).status !== 0) return `go is not installed: the program ${name} is built with it`;
  const { status } = spawnSync("go", ["mod", "download"], { cwd: sourceOf(name) });
  return status === 0 ? undefined : `the Go modules of the program ${name} cannot be downloaded here`;
}

/** A program, which is built where it is missing. */
export function goProgram(name) {
  const file = programFile(name);
  const lock = `${file}.lock`;
  mkdirSync(join(file, ".."), { recursive: true });
  // Another test may build it at the same time.
  while (!existsSync(file)) {
    if (!locked(lock)) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      continue;
    }
    try {
      const args = ["build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", `${file}.new`, "."];
      execFileSync("go", args, { cwd: sourceOf(name), env: { ...process.env, CGO_ENABLED: "0" }, stdio: "pipe" });
      renameSync(`${file}.new`, file);
    } finally {
      rmdirSync(lock);
    }
  }
  return file;
}

function sourceOf(name) {
  return join(import.meta.dirname, "../test/support", sources[name]);
}

function programFile(name) {
  const hash = createHash("sha256");
  for (const file of ["go.mod", "go.sum", "main.go"]) hash.update(readFileSync(join(sourceOf(name), file)));
  const folder = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  return join(folder, "snowlease", `${name}-${hash.digest("hex").slice(0, 16)}`);
}

function locked(lock) {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    if (since !== undefined && Date.now() - since > longestBuild) rmdirSync(lock);
    return false;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) console.log(goProgram(process.argv[2]));
