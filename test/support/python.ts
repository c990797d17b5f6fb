import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/**
 * Whether Python is installed in this version or a newer one, with these modules. If it may be missing, a warning says so. Under CI it
 * must not be missing.
 */
export function hasPython(minor: number, modules: readonly string[] = ["ensurepip", "venv"]): boolean {
  const check = `import ${["sys", ...modules].join(", ")}; sys.exit(sys.version_info < (3, ${minor}))`;
  const isThere = spawnSync("python3", ["-c", check], { stdio: "ignore" }).status === 0;
  const what = [`Python 3.${minor}`, ...modules].join(" with ");
  if (!isThere && process.env["CI"] !== undefined) throw new Error(`${what} is not installed.`);
  if (!isThere) console.warn(`NOT RUN: tests with Python, since ${what} is not installed.`);
  return isThere;
}

/** The folder with the programs of these packages, including `python3`. pip installs them once, into ~/.cache/snowlease. */
export function pythonPackages(...requirements: readonly string[]): string {
  const name = createHash("sha256").update(requirements.join("\n")).digest("hex").slice(0, 16);
  const folder = join(homedir(), ".cache/snowlease/python", name);
  mkdirSync(folder, { recursive: true });
  // Several test processes may install at the same time.
  const install = `test -e ready || { python3 -m venv --clear venv && venv/bin/pip install -q "$@" && touch ready; }`;
  const args = ["lock", "sh", "-c", install, "sh", ...requirements];
  const { status, stderr } = spawnSync("flock", args, { cwd: folder, encoding: "utf8" });
  if (status !== 0) throw new Error(`pip did not install ${requirements.join(", ")}: ${stderr}`);
  return join(folder, "venv/bin");
}
