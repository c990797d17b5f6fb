import { execFile, execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, symlinkSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { ImageRoot, pathOf } from "./image-root.ts";
import { ServerProcess } from "./servers.ts";

const dockerd = "/usr/sbin/dockerd";
const docker = "/usr/bin/docker";

/** Why the test can start no engine here, or undefined. */
export const noEngine: string | undefined = !existsSync(dockerd)
  ? "the Debian package docker.io is not installed"
  : process.getuid?.() === 0
    ? undefined
    : "an engine needs root";

/** The network that its containers reach: only this machine's own network, or that of a machine that contains only the engine. */
type Network = "none" | "own";

/** An engine of its own, in a folder of its own, which changes nothing in this machine's network. */
export class DockerEngine {
  readonly #server = new ServerProcess("docker");

  /** Starts it, without an image. */
  static async start(network: Network = "none"): Promise<DockerEngine> {
    const engine = new DockerEngine();
    const { folder } = engine.#server;
    const places = ["data-root", "exec-root", "pidfile"].map((name) => `--${name}=${join(folder, name)}`);
    const quiet = ["--iptables=false", "--ip6tables=false", "--ip-forward=false"];
    const args = [`--host=${engine.host}`, ...places, ...quiet];
    const apart = ["--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', dockerd, ...args];
    const [command, all] = network === "own" ? ["unshare", apart] : [dockerd, [...args, "--bridge=none"]];
    await engine.#server.start(command, all, async () => {
      await engine.run("version");
      return true;
    });
    return engine;
  }

  /** The address for its clients. */
  get host(): string {
    return `unix://${join(this.#server.folder, "socket")}`;
  }

  /** The network that it is in, as a file that a process can enter. */
  get network(): string {
    return `/proc/${this.#server.pid}/ns/net`;
  }

  /** Runs `docker …` to its end; returns its output. */
  async run(...args: readonly string[]): Promise<string> {
    const env = { ...process.env, DOCKER_HOST: this.host, DOCKER_BUILDKIT: "1" };
    const { stdout, stderr } = await promisify(execFile)(docker, args, { env, maxBuffer: 1 << 26 });
    return (args[0] === "logs" ? stdout + stderr : stdout).trim();
  }

  /** Makes an image. `lines`: of a Dockerfile, which need no build. */
  async makeImage(name: string, fill: (root: ImageRoot) => void, ...lines: readonly string[]): Promise<void> {
    const folder = join(this.#server.folder, `image-${crypto.randomUUID()}`);
    const tar = `${folder}.tar`;
    fill(new ImageRoot(folder));
    execFileSync("tar", ["--directory", folder, "--create", "--file", tar, "."]);
    await this.run("import", ...lines.flatMap((line) => ["--change", line]), tar, name);
  }

  /** Makes the image `base`: the files of this machine that Node and npm need. */
  async makeBase(): Promise<void> {
    const variables = "PATH=/usr/local/bin:/usr/bin:/bin NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt";
    await this.makeImage("base", fillBase, `ENV ${variables}`);
  }

  /** Ends it, and its containers. */
  async stop(): Promise<void> {
    const containers = await this.run("ps", "--all", "--quiet");
    if (containers !== "") await this.run("rm", "--force", "--volumes", ...containers.split("\n"));
    await this.#server.kill("SIGTERM");
    // It leaves one network namespace mounted there.
    spawnSync("umount", [join(this.#server.folder, "exec-root/netns/default")]);
    await this.#server.remove();
  }
}

/** The programs that a build runs, and the libraries of this machine that they need. */
function fillBase(root: ImageRoot): void {
  for (const name of ["sh", "ln", "mkdir", "chown", "env"]) root.copyProgram(name);
  root.copy(pathOf("env"), "usr/bin/env");
  root.copyLinked(process.execPath, "usr/local/bin/node");
  // A Node without SQLite loads another library instead, which needs some, too.
  const folder = "node_modules/@libsql";
  for (const name of readdirSync(folder).filter((each) => each.endsWith("-gnu"))) {
    root.copyLinked(join(folder, name, "index.node"), `opt/${name}`);
  }
  root.copy("/etc/ssl/certs/ca-certificates.crt");
  // The registry from which this machine's npm fetches packages.
  if (existsSync(join(homedir(), ".npmrc"))) root.copy(join(homedir(), ".npmrc"), "root/.npmrc");
  const npm = pathOf("npm");
  root.copyFolder(dirname(dirname(npm)), "usr/local/lib/npm");
  symlinkSync(`../lib/npm/bin/${basename(npm)}`, join(root.folder, "usr/local/bin/npm"));
  root.makeFolder("opt");
  root.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n");
}
