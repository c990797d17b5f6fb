import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { go } from "../test/support/go/go.ts";
import type { ClientProgram } from "./crew.ts";

const clients = fileURLToPath(new URL("../clients", import.meta.url));
const holders = join(import.meta.dirname, "clients");

/** Makes the holder of each language, in a folder for it. Throws if the language's tools are missing. */
const languages: Readonly<Record<string, (folder: string) => Omit<ClientProgram, "language">>> = {
  Python() {
    run("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 9))"]);
    const environment = { PYTHONPATH: join(clients, "python/src"), PYTHONDONTWRITEBYTECODE: "1" };
    return { command: ["python3", join(holders, "holder.py")], environment };
  },
  Java(folder) {
    const sources = join(clients, "java/snowlease/src/main/java");
    const files = readdirSync(sources, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".java") && !name.endsWith("module-info.java"))
      .map((name) => join(sources, name));
    const own = ["ProofHolder.java", "FakedClock.java"].map((name) => join(holders, name));
    run("javac", ["-encoding", "UTF-8", "--release", "11", "-d", folder, ...files, ...own]);
    // Small limits, since several of these programs run at the same time.
    const options = ["-Xms64m", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"];
    return { command: ["java", ...options, "-cp", folder, "ProofHolder"], environment: {} };
  },
  Go(folder) {
    const overlay = join(folder, "overlay.json");
    const added = join(clients, "go/faked_clock.go");
    writeFileSync(overlay, JSON.stringify({ Replace: { [added]: join(holders, "go/testdata/faked_clock.go") } }));
    const to = join(folder, "holder");
    go(join(holders, "go"), "build", "-overlay", overlay, "-o", to, ".");
    return { command: [to], environment: {} };
  },
};

/** The languages of the holders, besides Node. */
export const languageNames: readonly string[] = Object.keys(languages);

/** Makes the holders' programs in this folder. Calls `onMissing` for each language whose tools do not work here, with the reason. */
export function makeClientPrograms(folder: string, onMissing: (why: string) => void): readonly ClientProgram[] {
  return Object.entries(languages).flatMap(([language, make]) => {
    const own = join(folder, language.toLowerCase());
    mkdirSync(own, { recursive: true });
    try {
      return [{ language, ...make(own) }];
    } catch (cause) {
      onMissing(`${language}: ${(cause as Error).message}`);
      return [];
    }
  });
}

function run(program: string, args: readonly string[]): void {
  const { error, status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (error !== undefined || status !== 0) throw new Error(error?.message ?? `${program} failed: ${stderr}`);
}
