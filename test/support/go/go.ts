import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The client's module. */
export const goClient: string = fileURLToPath(new URL("../../../clients/go", import.meta.url));
const programs = fileURLToPath(new URL(".", import.meta.url));

/** The environment of `go`. It forbids downloads. */
const goEnvironment: NodeJS.ProcessEnv = {
  ...process.env,
  // The last entry is the folder to which Go's own archive is unpacked.
  PATH: `${process.env["PATH"]}:/usr/local/go/bin`,
  GOFLAGS: "-mod=readonly -buildvcs=false",
  GOPROXY: "off",
  GOTOOLCHAIN: "local",
  GOWORK: "off",
};

/** Whether Go and these programs are installed. If they may be missing, a warning says so. Under CI they must not be missing. */
export function hasGo(...programs: readonly string[]): boolean {
  const isMissing = (name: string): boolean =>
    spawnSync(name, ["--version"], { env: goEnvironment }).error !== undefined;
  const missing = ["go", ...programs].find(isMissing);
  if (missing !== undefined && process.env["CI"] !== undefined) throw new Error(`Not installed: ${missing}.`);
  if (missing !== undefined) console.warn(`NOT RUN: tests with Go, for which is needed: ${missing}.`);
  return missing === undefined;
}

/** Runs `go` in a folder. It must succeed. */
export function go(folder: string, ...args: readonly string[]): string {
  const { error, status, stdout, stderr } = spawnSync("go", args, {
    cwd: folder,
    env: goEnvironment,
    encoding: "utf8",
  });
  if (error !== undefined || status !== 0) throw new Error(`go ${args.join(" ")}: ${error ?? `${stdout}${stderr}`}`);
  return stdout;
}

/** The folder of the programs `ids`, `crew` and `orders`, with the race detector, built once for these sources. */
export function goPrograms(): string {
  const hash = createHash("sha256").update(go(goClient, "version"));
  for (const root of [goClient, programs]) {
    for (const name of readdirSync(root, { recursive: true, encoding: "utf8" }).toSorted()) {
      const file = join(root, name);
      if (/\.(go|mod)$/.test(name) && statSync(file).isFile()) hash.update(name).update(readFileSync(file));
    }
  }
  const folder = join(homedir(), ".cache/snowlease/go", hash.digest("hex").slice(0, 16));
  mkdirSync(folder, { recursive: true });
  // Several test processes may build at the same time.
  const build = `test -e ready || {
    out=$PWD && cd "$1" && go build -race -o "$out" ./examples/orders && cd "$2" && go build -race -o "$out" ./ids ./crew && touch "$out/ready"; }`;
  const args = ["lock", "sh", "-c", build, "sh", goClient, programs];
  const { status, stderr } = spawnSync("flock", args, { cwd: folder, env: goEnvironment, encoding: "utf8" });
  if (status !== 0) throw new Error(`The programs of the Go client were not built: ${stderr}`);
  return folder;
}
