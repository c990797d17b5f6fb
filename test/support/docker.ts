import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { ImageFolder, whereIs } from "./image-folder.ts";
import { ServerProcess } from "./servers.ts";

const dockerd = "/usr/sbin/dockerd";
const docker = "/usr/bin/docker";

/** Why no engine can be started here; undefined if one can. */
export const noEngine: string | undefined = !existsSync(dockerd)
  ? "the Debian package docker.io is not installed"
  : process.getuid?.() === 0
    ? undefined
    : "an engine needs root";

/** What is in an image that is made here. */
export interface ImageRecipe {
  readonly environment: Readonly<Record<string, string>>;
  fill(image: ImageFolder): void;
  /** The default command of a container. */
  readonly command?: readonly string[];
  /** The folder for its data, in which it also runs. */
  readonly volume?: string;
}

/**
 * A container engine in a folder of its own. It changes nothing in this machine's network. It cannot fetch images, so all images are made
 * here.
 */
export class DockerEngine {
  readonly #server = new ServerProcess("docker");

  /**
   * Starts the engine without any network. `network: "own"`: in a network of its own, where containers publish ports. That network has no
   * connection to the outside. Programs that `inside` starts are in it.
   */
  static async start({ network }: { readonly network?: "own" } = {}): Promise<DockerEngine> {
    const engine = new DockerEngine();
    const { folder } = engine.#server;
    const places = ["data-root", "exec-root", "pidfile"].map((name) => `--${name}=${join(folder, name)}`);
    const untouched = ["--iptables=false", "--ip6tables=false"];
    const bridge = network === "own" ? ["--ip-forward=false", "--ip-masq=false"] : ["--bridge=none"];
    const args = [`--host=${engine.host}`, ...places, ...untouched, ...bridge];
    const own = ["--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', dockerd];
    const [program, first] = network === "own" ? ["unshare", own] : [dockerd, []];
    // If its end takes long, it writes the stacks of what it waits for into this folder.
    engine.#server.environment = { TMPDIR: folder };
    await engine.#server.start(program, [...first, ...args], async () => {
      await engine.run("version");
      return true;
    });
    return engine;
  }

  /** The address of the engine: `unix://…`. */
  get host(): string {
    return `unix://${join(this.#server.folder, "socket")}`;
  }

  /** The beginning of a command line that runs a program in the network of this engine. */
  get inside(): readonly [string, ...string[]] {
    return ["nsenter", `--target=${this.#server.pid}`, "--net", "--"];
  }

  /** Makes an image. */
  async make(tag: string, { environment, fill, command, volume }: ImageRecipe): Promise<void> {
    const root = mkdtempSync(join(this.#server.folder, "image-"));
    try {
      const image = new ImageFolder(join(root, "files"));
      fill(image);
      const tar = join(root, "tar");
      image.pack(tar);
      const changes = [
        ...Object.entries(environment).map(([name, value]) => `ENV ${name}=${value}`),
        ...(command === undefined ? [] : [`CMD ${JSON.stringify(command)}`]),
        ...(volume === undefined ? [] : [`VOLUME ${volume}`, `WORKDIR ${volume}`]),
      ];
      await this.run("import", ...changes.map((change) => `--change=${change}`), tar, tag);
    } finally {
      rmSync(root, { recursive: true });
    }
  }

  /** Runs `docker …` to its end, and returns what it printed. */
  async run(...args: readonly string[]): Promise<string> {
    const env = { ...process.env, DOCKER_HOST: this.host, DOCKER_BUILDKIT: "1" };
    const { stdout, stderr } = await promisify(execFile)(docker, args, { env, maxBuffer: 1 << 26 });
    return (args[0] === "logs" ? stdout + stderr : stdout).trim();
  }

  /** Ends the engine, and everything that runs in it. */
  async stop(): Promise<void> {
    const containers = await this.run("ps", "--all", "--quiet");
    if (containers !== "") await this.run("rm", "--force", ...containers.split("\n"));
    await this.#server.kill("SIGTERM");
    // The engine leaves a network namespace mounted there.
    spawnSync("umount", [join(this.#server.folder, "exec-root/netns/default")]);
    await this.#server.remove();
  }
}

/** The files of this machine that Node, npm and an init need. A build begins with them. */
export const base: ImageRecipe = {
  environment: { PATH: "/usr/local/bin:/usr/bin:/bin", NODE_EXTRA_CA_CERTS: "/etc/ssl/certs/ca-certificates.crt" },
  fill(image) {
    for (const name of ["sh", "ln", "mkdir", "chown", "env"]) image.program(name, `/bin/${name}`);
    image.library(process.execPath, "/usr/local/bin/node");
    // A Node without SQLite loads a package in its place, which needs libraries, too.
    const folder = "node_modules/@libsql";
    for (const name of readdirSync(folder).filter((each) => each.endsWith("-gnu"))) {
      image.library(join(folder, name, "index.node"), `/opt/${name}`);
    }
    image.program("env");
    // It comes with the package of the engine, and needs no library.
    image.add("/usr/bin/tini-static");
    image.add("/etc/ssl/certs/ca-certificates.crt");
    // The registry from which this machine's npm fetches packages.
    const npmrc = join(homedir(), ".npmrc");
    if (existsSync(npmrc)) image.add(npmrc, "/root/.npmrc");
    const npm = whereIs("npm");
    image.add(dirname(dirname(npm)), "/usr/local/lib/npm");
    symlinkSync(`../lib/npm/bin/${basename(npm)}`, image.place("/usr/local/bin/npm"));
    image.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n");
  },
};
