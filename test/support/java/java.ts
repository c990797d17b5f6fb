import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const clients = fileURLToPath(new URL("../../../clients", import.meta.url));

/** Whether a JDK of this version or a newer one is installed. If it may be missing, a warning says so. Under CI it must not be missing. */
export function hasJdk(version: number): boolean {
  const { stdout } = spawnSync("javac", ["-version"], { encoding: "utf8" });
  return isThere(
    Number(/^javac (\d+)/.exec(stdout ?? "")?.[1] ?? 0) >= version,
    `a JDK of version ${version} or later`,
  );
}

/** The same, with Maven. */
export function hasMaven(version: number): boolean {
  return hasJdk(version) && isThere(spawnSync("mvn", ["-v"], { stdio: "ignore" }).status === 0, "Maven");
}

function isThere(found: boolean, what: string): boolean {
  if (!found && process.env["CI"] !== undefined) throw new Error(`Not installed: ${what}.`);
  if (!found) console.warn(`NOT RUN: tests with Java, for which is needed: ${what}.`);
  return found;
}

/** Every file of a folder, except Maven's output. */
function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== "target")
    .flatMap((entry) => (entry.isDirectory() ? filesIn(join(folder, entry.name)) : [join(folder, entry.name)]))
    .toSorted();
}

/** Maven's output for clients/java, made once for each state of it, in ~/.cache/snowlease. */
export class JavaBuild {
  readonly #folder: string;

  constructor() {
    const sources = ["java", "vectors"].flatMap((name) => filesIn(join(clients, name)));
    const hash = createHash("sha256");
    for (const file of sources)
      hash.update(file.slice(clients.length)).update("\0").update(readFileSync(file)).update("\0");
    this.#folder = join(homedir(), ".cache/snowlease/java", hash.digest("hex").slice(0, 16));
    mkdirSync(this.#folder, { recursive: true });
    for (const file of sources) cpSync(file, join(this.#folder, file.slice(clients.length)));
    const copy = "dependency:copy-dependencies -DincludeScope=test -DoutputDirectory=target/dependency";
    this.#maven("ready", `-Pexamples -DskipTests package ${copy}`);
  }

  /** The jar file of the client, as users get it. */
  get jar(): string {
    return this.#file("snowlease/target/snowlease-0.1.0.jar");
  }

  /** The class path of the client, its module for westid, and westid. */
  get westid(): string {
    const module = this.#file("snowlease-westid/target");
    return [this.jar, join(module, "snowlease-westid-0.1.0.jar"), join(module, "dependency/*")].join(":");
  }

  /** The example service. */
  get springBoot(): string {
    return this.#file("examples/spring-boot/target/orders-1.0.0.jar");
  }

  /** Runs the client's own tests. */
  test(): void {
    this.#maven("tested", "test");
  }

  #file(path: string): string {
    return join(this.#folder, "java", path);
  }

  /** Runs Maven once. Several test processes may come here at the same time. */
  #maven(mark: string, goals: string): void {
    const run = `test -e ${mark} || { mvn -q -B -ntp -f java/pom.xml ${goals} && touch ${mark}; }`;
    const { status, stdout, stderr } = spawnSync("flock", ["lock", "sh", "-c", run], {
      cwd: this.#folder,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`mvn ${goals}: ${stdout}${stderr}`);
  }
}
