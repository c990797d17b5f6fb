import { execFileSync, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { atTheEnd } from "./at-the-end.ts";
import { isAlive, ServerProcess, startOnFreePort, whyMissing } from "./servers.ts";

const versions = "/usr/lib/postgresql";
/** The folder of PostgreSQL's programs. */
export const postgresBin: string | undefined = existsSync(versions)
  ? readdirSync(versions)
      .toSorted((a, b) => Number(a) - Number(b))
      .map((version) => join(versions, version, "bin"))
      .findLast((folder) => existsSync(join(folder, "initdb")))
  : undefined;

/** Why there is no PostgreSQL to start; undefined if there is one. */
export const postgresMissing: string | undefined = whyMissing(
  "PostgreSQL",
  () => postgresBin !== undefined,
  "postgresql",
);

/** The user that it runs as, since it refuses to run as root. */
export const asPostgres = userInfo().uid === 0 && postgresMissing === undefined ? unprivileged("postgres") : undefined;
const as = asPostgres?.prefix ?? [];

function unprivileged(user: string): { uid: number; gid: number; prefix: readonly string[] } {
  const id = (flag: string): number => Number(execFileSync("id", [flag, user], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g"), prefix: [`--reuid=${user}`, `--regid=${user}`, "--init-groups"] };
}

let template: string | undefined;
atTheEnd(() => {
  if (template !== undefined) rmSync(dirname(template), { recursive: true, force: true });
});

/** A data folder to copy. It is made once. */
function templateFolder(): string {
  if (template !== undefined) return template;
  const folder = mkdtempSync(join(tmpdir(), "snowlease-postgres-"));
  own(folder);
  const data = join(folder, "data");
  const args = ["-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"];
  execFileSync("setpriv", [...as, join(postgresBin ?? "", "initdb"), ...args], { stdio: "ignore", cwd: folder });
  template = data;
  return data;
}

function own(folder: string): void {
  if (asPostgres !== undefined) chownSync(folder, asPostgres.uid, asPostgres.gid);
}

/** A PostgreSQL of the test's own. */
export class PostgresServer {
  readonly process: ServerProcess = new ServerProcess("postgres");
  readonly port: number;
  readonly #settings: Readonly<Record<string, string>>;

  private constructor(port: number, settings: Readonly<Record<string, string>>) {
    this.port = port;
    this.#settings = settings;
  }

  /** Starts a server on a free port. Everything that it acknowledges is on disk. `from`: a data folder to copy. */
  static async start(settings: Readonly<Record<string, string>> = {}, from?: string): Promise<PostgresServer> {
    return startOnFreePort((port) => {
      const server = new PostgresServer(port, settings);
      own(server.process.folder);
      execFileSync("cp", ["-a", from ?? templateFolder(), server.data]);
      return server;
    });
  }

  /** Starts another server that follows this one. */
  async follower(): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-postgres-"));
    own(folder);
    const data = join(folder, "data");
    const from = [
      "-h",
      "127.0.0.1",
      "-p",
      String(this.port),
      "-U",
      "postgres",
      "-c",
      "fast",
      "-X",
      "stream",
      "-R",
      "--no-sync",
    ];
    try {
      execFileSync("setpriv", [...as, join(postgresBin ?? "", "pg_basebackup"), ...from, "-D", data], { cwd: folder });
      return await PostgresServer.start({}, data);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  get data(): string {
    return join(this.process.folder, "data");
  }

  /** Starts the server again, with the data that it had saved. */
  async start(): Promise<void> {
    const settings = {
      listen_addresses: "127.0.0.1",
      port: String(this.port),
      unix_socket_directories: "",
      fsync: "on",
      shared_buffers: "16MB",
      // This memory is in the data folder, so that nothing stays when the server is killed.
      dynamic_shared_memory_type: "mmap",
      ...this.#settings,
    };
    const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const answers = async (): Promise<boolean> => {
      await this.query("SELECT 1");
      return true;
    };
    await this.process.start(join(postgresBin ?? "", "postgres"), ["-D", this.data, ...args], answers, as);
  }

  url(query = ""): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres${query}`;
  }

  /** Runs one statement by a client of the test's own. */
  async query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.url() });
    client.on("error", () => undefined);
    try {
      await client.connect();
      return (await client.query<Record<string, unknown>>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Ends all of its processes at once, as if its machine had stopped. */
  async kill(): Promise<void> {
    this.process.signal("SIGSTOP");
    const children = this.process.children();
    await this.process.kill();
    for (const pid of children) kill(pid);
    // The shared memory is free only after the last child has ended.
    while (children.some(isAlive)) await sleep(5);
  }

  async remove(): Promise<void> {
    const pidFile = join(this.data, "postmaster.pid");
    if (existsSync(pidFile)) {
      const [, segment] = /^ *\d+ +(\d+) *$/m.exec(readFileSync(pidFile, "latin1")) ?? [];
      await this.kill().catch(() => undefined);
      // Otherwise, the kernel keeps the shared memory until the machine starts again.
      if (segment !== undefined) spawnSync("ipcrm", ["-m", segment]);
    }
    await this.process.remove();
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended by itself.
  }
}
