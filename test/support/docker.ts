import { execFile, execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { ServerProcess } from "./servers.ts";

const dockerd = "/usr/sbin/dockerd";
const docker = "/usr/bin/docker";

/** Why no engine can be started here, or nothing. */
export const noEngine: string | undefined = !existsSync(dockerd)
  ? "the Debian package docker.io is not installed"
  : process.getuid?.() === 0
    ? undefined
    : "an engine needs root";

/** An engine of its own, in a folder of its own, which changes nothing of this machine's network. */
export class DockerEngine {
  readonly #server = new ServerProcess("docker");

  /** Starts it with one image, `base`: what is needed of this machine to run Node and npm, and an init, since no image can be fetched. */
  static async start(): Promise<DockerEngine> {
    const engine = new DockerEngine();
    const { folder } = engine.#server;
    const places = ["data-root", "exec-root", "pidfile"].map((name) => `--${name}=${join(folder, name)}`);
    const network = ["--iptables=false", "--ip6tables=false", "--bridge=none"];
    await engine.#server.start(dockerd, [`--host=${engine.#host}`, ...places, ...network], async () => {
      await engine.run("version");
      return true;
    });
    try {
      const tar = join(folder, "base.tar");
      makeBase(join(folder, "base"), tar);
      const variables = "PATH=/usr/local/bin:/usr/bin:/bin NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt";
      await engine.run("import", "--change", `ENV ${variables}`, tar, "base");
    } catch (error) {
      await engine.stop();
      throw error;
    }
    return engine;
  }

  get #host(): string {
    return `unix://${join(this.#server.folder, "socket")}`;
  }

  /** Runs `docker …` to its end; what it printed. */
  async run(...args: readonly string[]): Promise<string> {
    const env = { ...process.env, DOCKER_HOST: this.#host, DOCKER_BUILDKIT: "1" };
    const { stdout, stderr } = await promisify(execFile)(docker, args, { env, maxBuffer: 1 << 26 });
    return (args[0] === "logs" ? stdout + stderr : stdout).trim();
  }

  /** Ends it, and what runs in it. */
  async stop(): Promise<void> {
    const containers = await this.run("ps", "--all", "--quiet");
    if (containers !== "") await this.run("rm", "--force", ...containers.split("\n"));
    await this.#server.kill("SIGTERM");
    // It leaves one network namespace mounted there.
    spawnSync("umount", [join(this.#server.folder, "exec-root/netns/default")]);
    await this.#server.remove();
  }
}

/** The programs that a build runs, and the libraries of this machine that they need. */
function makeBase(root: string, tar: string): void {
  const add = (from: string, to: string): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    copyFileSync(from, join(root, to));
  };
  const which = (name: string): string =>
    realpathSync(execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim());
  const programs = ["sh", "ln", "mkdir", "chown", "env"].map((name) => [which(name), `bin/${name}`] as const);
  // What a Node without SQLite loads in its place needs some, too.
  const folder = "node_modules/@libsql";
  const addons = readdirSync(folder).filter((name) => name.endsWith("-gnu"));
  const libraries = addons.map((name) => [join(folder, name, "index.node"), `opt/${name}`] as const);
  for (const [from, to] of [...programs, [process.execPath, "usr/local/bin/node"] as const, ...libraries]) {
    add(from, to);
    for (const [library] of execFileSync("ldd", [from], { encoding: "utf8" }).matchAll(/\/\S+/g)) add(library, library);
  }
  add(which("env"), "usr/bin/env");
  // Comes with the engine's package, and needs no library.
  add(which("tini-static"), "usr/bin/tini-static");
  add("/etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt");
  // Where this machine's npm fetches packages.
  if (existsSync(join(homedir(), ".npmrc"))) add(join(homedir(), ".npmrc"), "root/.npmrc");
  const npm = which("npm");
  cpSync(dirname(dirname(npm)), join(root, "usr/local/lib/npm"), { recursive: true, dereference: true });
  symlinkSync(`../lib/npm/bin/${basename(npm)}`, join(root, "usr/local/bin/npm"));
  for (const name of ["tmp", "opt", "proc", "dev"]) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n");
  execFileSync("tar", ["--directory", root, "--create", "--file", tar, "."]);
}
