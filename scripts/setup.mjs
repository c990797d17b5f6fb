// Prepares what every script needs. Plain Node: it runs in a clone where nothing is installed yet.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { complete } from "./complete.mjs";
import { filesIn, hashOf } from "./files.mjs";

export const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");

const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  fail(`Node 20.19 or newer is needed, this is ${process.versions.node}; see https://nodejs.org/en/download`);
}
process.chdir(root);

/** Ends the process with one line that says what to do. */
export function fail(message, exitCode = 1) {
  console.error(`snowlease: ${message}`);
  process.exit(exitCode);
}

/** Installs what package-lock.json asks for, unless npm's own record of node_modules says that everything is there. */
export function ensureDependencies() {
  if (isInstalled()) return;
  say("installing dependencies (npm ci)");
  // npm may be configured to leave packages out. The compiler is a dev dependency, and its binary is an optional one, so both are
  // included here. No package needs its install script, and one would try to compile.
  const status = run("npm", ["ci", "--include=dev", "--include=optional", "--ignore-scripts"]);
  if (status !== 0) fail("the dependencies could not be installed; mend what npm says above, then try again", status);
}

function isInstalled() {
  if (!existsSync("node_modules/.package-lock.json")) return false;
  const wanted = readJson("package-lock.json").packages;
  const present = readJson("node_modules/.package-lock.json").packages;
  return Object.keys(wanted).every((path) => {
    // An optional package may be missing. Most are binaries for other platforms.
    const mayMiss = path === "" || (wanted[path].optional && !present[path]);
    return mayMiss || present[path]?.integrity === wanted[path].integrity;
  });
}

/** Compiles src/ to dist/, unless dist/ was made from the same sources. */
export function ensureBuild() {
  const stamp = "node_modules/.snowlease-build";
  const makers = ["package.json", "package-lock.json", "tsconfig.json", "scripts/complete.mjs", "scripts/vendor.mjs"];
  const sources = hashOf([...makers, ...filesIn("src"), ...filesIn("sql")]);
  if (existsSync("dist") && existsSync(stamp) && readFileSync(stamp, "utf8") === sources) return;

  say("compiling (tsc)");
  // Compile into a folder beside dist/. A daemon that runs from dist/ still imports from there, and a failed build leaves dist/ whole.
  const next = `dist.${process.pid}`;
  const status = run(process.execPath, ["node_modules/typescript/bin/tsc", "--outDir", next]);
  if (status !== 0) {
    rmSync(next, { recursive: true, force: true });
    fail("src/ does not compile; see the errors above", status);
  }
  try {
    complete(root, next);
  } catch (error) {
    rmSync(next, { recursive: true, force: true });
    throw error;
  }
  rmSync("dist", { recursive: true, force: true });
  renameSync(next, "dist");
  writeFileSync(stamp, sources);
}

/**
 * Installs Debian packages that the tests use. Takes `{package: a file that it contains}`. A `*` in a file's path stands for one folder,
 * such as that of the machine's architecture.
 */
export function ensurePackages(fileOf) {
  const missing = Object.keys(fileOf).filter((name) => !exists(fileOf[name].split("/").slice(1)));
  if (missing.length === 0) return;

  const sudo =
    process.getuid?.() === 0 ? [] : process.env.CI && existsSync("/usr/bin/sudo") ? ["sudo", "-n"] : undefined;
  const apt = (...args) => {
    const [command, ...rest] = [...sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", ...args];
    return run(command, rest) === 0;
  };
  if (sudo && existsSync("/usr/bin/apt-get")) {
    say(`installing ${missing.join(", ")} (apt-get)`);
    const updated = apt("update", "-qq") || apt("update", "-qq");
    if (updated && apt("install", "-y", "-qq", "--no-install-recommends", ...missing)) return;
  }

  const what = `the tests need ${missing.join(", ")}`;
  if (process.env.CI) fail(`${what}; ${adviceFor(missing)}`);
  say(`${what}; what needs them is skipped, all else runs; ${adviceFor(missing)}`);
}

/** The command that installs Debian packages here. */
function adviceFor(packages) {
  if (existsSync("/usr/bin/apt-get")) return `as root: apt-get install --no-install-recommends ${packages.join(" ")}`;
  const container =
    'docker run --rm -v "$PWD:/snowlease" -v /snowlease/node_modules -v /snowlease/dist -w /snowlease node:20';
  return `this system has no apt-get. Where Docker answers, the contract finds the stores in containers. To run all tests: ${container} npm test`;
}

function exists([name, ...rest], folder = "/") {
  if (name === undefined) return true;
  if (name !== "*") return existsSync(join(folder, name)) && exists(rest, join(folder, name));
  return readdirSync(folder, { withFileTypes: true }).some(
    (e) => e.isDirectory() && exists(rest, join(folder, e.name)),
  );
}

/** Runs a program to its end, and returns its exit status. Its output goes to stderr, since stdout belongs to the job that comes after. */
function run(command, args) {
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", 2, 2], shell: process.platform === "win32" });
  if (error) say(`${command}: ${error.message}`);
  return status ?? 1;
}

function say(message) {
  console.error(`snowlease: ${message}`);
}

function readJson(file) {
  return JSON.parse(readFileSync(file, "utf8"));
}
