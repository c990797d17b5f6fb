import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The client's module. */
export const goClient: string = fileURLToPath(new URL("../../../clients/go", import.meta.url));
const crew = fileURLToPath(new URL("crew", import.meta.url));

/** The environment of `go`: it downloads nothing. */
export const goEnvironment: NodeJS.ProcessEnv = {
  ...process.env,
  CGO_ENABLED: "1",
  GOFLAGS: "-mod=readonly -buildvcs=false",
  GOPROXY: "off",
  GOTOOLCHAIN: "local",
  GOWORK: "off",
};

/** Whether Go is there, and a C compiler for its race detector. If they may be missing, a warning says so; under CI they may not. */
export function hasGo(): boolean {
  const missing = ["go", "gcc"].find((name) => spawnSync(name, ["--version"]).error !== undefined);
  if (missing !== undefined && process.env["CI"] !== undefined) throw new Error(`${missing} is not installed.`);
  if (missing !== undefined) console.warn(`NOT RUN: tests of the Go client, since ${missing} is not installed.`);
  return missing === undefined;
}

/** The folder of the programs `snowlease-ids` and `crew`, the latter with the race detector, built once for these sources. */
export function goPrograms(): string {
  const hash = createHash("sha256").update(spawnSync("go", ["version"], { encoding: "utf8" }).stdout);
  for (const root of [goClient, crew]) {
    for (const name of readdirSync(root, { recursive: true, encoding: "utf8" }).toSorted()) {
      const file = join(root, name);
      if (/\.(go|mod)$/.test(name) && statSync(file).isFile()) hash.update(name).update(readFileSync(file));
    }
  }
  const folder = join(homedir(), ".cache/snowlease/go", hash.digest("hex").slice(0, 16));
  mkdirSync(folder, { recursive: true });
  // Several test processes may come here at the same time.
  const build = `test -e ready || {
    out=$PWD && cd "$1" && go build -o "$out" ./cmd/snowlease-ids && cd "$2" && go build -race -o "$out" . && touch "$out/ready"; }`;
  const args = ["lock", "sh", "-c", build, "sh", goClient, crew];
  const { status, stderr } = spawnSync("flock", args, { cwd: folder, env: goEnvironment, encoding: "utf8" });
  if (status !== 0) throw new Error(`The programs of the Go client were not built: ${stderr}`);
  return folder;
}
