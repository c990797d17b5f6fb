import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * The ports below the range that Linux uses for outgoing connections (`ip_local_port_range`). Each worker of a run has its own part of
 * these ports. Otherwise, a test could take the port of a server that another test has stopped for a moment.
 */
const ports = { first: 10_000, count: 5500, parts: 4 };
const first = ports.first + (Number(process.env["VITEST_POOL_ID"] ?? 0) % ports.parts) * ports.count;
let last = Math.floor(Math.random() * ports.count);

/**
 * A port on which no program listens at the moment, and another one at each call. No client's connection can get it as its own port while
 * its server is down. Otherwise, a client that tries to reconnect would sooner or later connect to itself there.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    last = (last + 1) % ports.count;
    const port = first + last;
    const server = createServer();
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
    } catch {
      continue;
    }
    await once(server.close(), "close");
    return port;
  }
}

/**
 * Why tests cannot start a server program; undefined if they can. `npm test` installs the program if it may. Under CI nothing is skipped.
 * `packages`: the packages of Debian that contain it.
 */
export function whyMissing(name: string, isThere: () => boolean, packages: string): string | undefined {
  if (process.platform !== "linux") return `run the tests on Linux, where they start ${name}`;
  if (process.env["CI"] !== undefined || isThere()) return undefined;
  return `${name} is not installed: as root, apt-get install --no-install-recommends ${packages}`;
}

/** Whether there is a program of this name. */
export function isProgram(name: string): boolean {
  return spawnSync(name, ["--version"], { stdio: "ignore" }).error === undefined;
}

/** A server of a test's own. */
interface Startable {
  readonly process: ServerProcess;
  start(): Promise<void>;
}

/** Makes a server on a free port and starts it. Takes another port if another program takes the first one before. */
export async function startOnFreePort<Server extends Startable>(
  make: (port: number) => Server,
  start: (server: Server) => Promise<void> = (server) => server.start(),
): Promise<Server> {
  for (let tries = 5; ; tries--) {
    const server = make(await freePort());
    try {
      await start(server);
      return server;
    } catch (error) {
      await server.process.remove();
      if (tries === 1) throw error;
    }
  }
}

/** A server of its own: a direct child of this process, in a folder of its own. */
export class ServerProcess {
  readonly folder: string;
  readonly log: string;
  /** Additions to its environment, from its next start on. */
  environment: Readonly<Record<string, string>> = {};
  #child: ChildProcess | undefined;

  constructor(name: string) {
    this.folder = mkdtempSync(join(tmpdir(), `snowlease-${name}-`));
    this.log = join(this.folder, "log");
  }

  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("This server does not run.");
    return pid;
  }

  /**
   * Starts the server and waits until it answers. If the server refuses to run as root, it runs as another user. It dies with this
   * process, however this process ends.
   */
  async start(
    command: string,
    args: readonly string[],
    answers: () => Promise<boolean>,
    as: readonly string[] = [],
  ): Promise<void> {
    const log = openSync(this.log, "a");
    // `env` sets the variables, so that the user of the server loads the preloaded libraries.
    const environment = Object.entries(this.environment).map(([name, value]) => `${name}=${value}`);
    const all = ["--pdeathsig", "KILL", ...as, "env", ...environment, command, ...args];
    const child = spawn("setpriv", all, { stdio: ["ignore", log, log] });
    closeSync(log);
    child.on("error", () => undefined);
    this.#child = child;
    while (!(await answers().catch(() => false))) {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
        throw new Error(`${command} ended: ${existsSync(this.log) ? readFileSync(this.log, "utf8").slice(-2000) : ""}`);
      }
      await sleep(10);
    }
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  /** The processes that it started. */
  children(): readonly number[] {
    const list = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, "latin1");
    return list.split(" ").filter(Boolean).map(Number);
  }

  /** Ends the server. Its files stay. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    for (const each of ["SIGCONT", signal] as const) if (child.pid !== undefined) process.kill(child.pid, each);
    await ended;
  }

  /** Ends the server, and removes its files. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The first answer of a server on this machine to a line. */
export function ask(port: number, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.setTimeout(500, () => socket.destroy(new Error("It keeps silent.")));
    socket.on("error", reject);
    // The server closed the connection without an answer.
    socket.on("close", () => reject(new Error("It says nothing.")));
    socket.on("data", (bytes) => {
      resolve(bytes.toString());
      socket.destroy();
    });
    socket.write(line);
  });
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return !/^State:\s+Z/m.test(readStatus(pid));
}

function readStatus(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "State: Z";
  }
}
