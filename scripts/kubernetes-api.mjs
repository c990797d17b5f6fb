// Builds the API server for the tests of Kubernetes with Go, once for each version of its source, in a cache folder of this user. Prints
// the path of the program.

import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const source = join(import.meta.dirname, "../test/support/kubernetes");
/** Other builds ignore the lock of a build after this time, ms: it was killed. */
const longestBuild = 1_200_000;

/**
 * Builds the program before the tests that need it. If that is not possible, the tests get the reason. `build`: whether to take the
 * minutes that a build needs.
 */
export function prepareKubernetesApi({ build = true } = {}) {
  const missing =
    build || existsSync(programFile())
      ? missingBecause()
      : "the API server of Kubernetes is not built: `npm run test:all` builds it";
  if (missing === undefined) kubernetesApi();
  else process.env.KUBERNETES_API_MISSING = missing;
}

/** Why the program cannot be built here, or undefined. */
function missingBecause() {
  if (existsSync(programFile())) return undefined;
  if (spawnSync("go", ["version"]).status !== 0) {
    return "go is not installed: the API server of Kubernetes is built with it";
  }
  const { status } = spawnSync("go", ["mod", "download"], { cwd: source });
  return status === 0 ? undefined : "the Go modules of the API server of Kubernetes cannot be downloaded here";
}

/** The path of the program. Builds the program if it is missing. */
function kubernetesApi() {
  const file = programFile();
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
      execFileSync("go", args, { cwd: source, env: { ...process.env, CGO_ENABLED: "0" }, stdio: "pipe" });
      renameSync(`${file}.new`, file);
    } finally {
      rmdirSync(lock);
    }
  }
  return file;
}

function programFile() {
  const hash = createHash("sha256");
  for (const name of ["go.mod", "go.sum", "main.go"]) hash.update(readFileSync(join(source, name)));
  const folder = process.env.XDG_CACHE_HOME || join(homedir(), ".cache");
  return join(folder, "snowlease", `kubernetes-api-${hash.digest("hex").slice(0, 16)}`);
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

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) console.log(kubernetesApi());
