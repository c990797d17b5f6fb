import { execFileSync, type ExecFileSyncOptions } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import mysql from "mysql2/promise";
import { atTheEnd } from "./at-the-end.ts";
import { isProgram, ServerProcess, startOnFreePort, whyMissing } from "./servers.ts";

/** Why there is no MariaDB to start; undefined if there is one. */
export const mariadbMissing: string | undefined = whyMissing(
  "MariaDB",
  () => isProgram("mariadbd"),
  "mariadb-server-core mariadb-client-core",
);

/** A server that speaks MariaDB's protocol. */
export interface Flavor {
  readonly name: string;
  /** The command that starts the server, with arguments that always come first. */
  readonly command: readonly string[];
  /** A statement that the server refuses until it works. Default: any statement. */
  readonly first?: string;
  /** Makes a data folder. */
  install(data: string): void;
}

/**
 * Options for making a data folder. If servers share a folder for temporary files, one that starts deletes the files of the others, so
 * each gets its own.
 */
export function installing(data: string): ExecFileSyncOptions {
  return { stdio: "pipe", env: { ...process.env, TMPDIR: dirname(data) } };
}

export const mariadb: Flavor = {
  name: "mariadb",
  command: ["mariadbd", "--no-defaults", "--user=root"],
  install(data) {
    const login = ["--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"];
    const args = ["--no-defaults", `--datadir=${data}`, ...login, "--innodb-log-file-size=4M"];
    execFileSync("mariadb-install-db", args, installing(data));
  },
};

const templates = new Map<Flavor, string>();
atTheEnd(() => {
  for (const data of templates.values()) rmSync(dirname(data), { recursive: true, force: true });
});

/** A data folder to copy. It is made once. */
function templateFolder(flavor: Flavor): string {
  let data = templates.get(flavor);
  if (data === undefined) {
    data = join(mkdtempSync(join(tmpdir(), `snowlease-${flavor.name}-`)), "data");
    flavor.install(data);
    templates.set(flavor, data);
  }
  return data;
}

/** A MariaDB or MySQL server of the test's own. */
export class MariadbServer {
  readonly process: ServerProcess;
  readonly port: number;
  readonly #options: readonly string[];
  readonly #flavor: Flavor;

  private constructor(port: number, options: readonly string[], flavor: Flavor) {
    this.port = port;
    this.#options = options;
    this.#flavor = flavor;
    this.process = new ServerProcess(flavor.name);
  }

  /**
   * Starts a server on a free port, with an empty database `snowlease`. Everything that it acknowledges is on disk.
   * @param once arguments of this start alone.
   */
  static async start(
    options: readonly string[] = [],
    flavor: Flavor = mariadb,
    once: readonly string[] = [],
  ): Promise<MariadbServer> {
    const make = (port: number): MariadbServer => {
      const server = new MariadbServer(port, options, flavor);
      cpSync(templateFolder(flavor), server.data, { recursive: true });
      return server;
    };
    return startOnFreePort(make, async (server) => {
      await server.start(once);
      await server.query("CREATE DATABASE IF NOT EXISTS snowlease", "");
    });
  }

  get data(): string {
    return join(this.process.folder, "data");
  }

  /** Starts the server again, with the data that it had saved. */
  async start(more: readonly string[] = []): Promise<void> {
    const [command = "", ...first] = this.#flavor.command;
    const socket = join(this.process.folder, "s.sock");
    // MySQL does not start if a killed server has left these files.
    for (const left of [socket, `${socket}.lock`]) rmSync(left, { force: true });
    const args = [
      ...first,
      `--datadir=${this.data}`,
      `--tmpdir=${this.process.folder}`,
      `--socket=${socket}`,
      `--port=${this.port}`,
      "--bind-address=127.0.0.1",
      "--skip-name-resolve",
      "--innodb-buffer-pool-size=32M",
      "--innodb-flush-log-at-trx-commit=1",
      "--performance-schema=OFF",
      ...this.#options,
      ...more,
    ];
    await this.process.start(command, args, async () => {
      await this.query(this.#flavor.first ?? "SELECT 1", "");
      return true;
    });
  }

  url(query = ""): string {
    return `mysql://root@127.0.0.1:${this.port}/snowlease${query}`;
  }

  /** Runs one statement by a client of the test's own. */
  async query(sql: string, database = "snowlease"): Promise<Record<string, unknown>[]> {
    const connection = await mysql.createConnection({ host: "127.0.0.1", port: this.port, user: "root", database });
    connection.on("error", () => undefined);
    try {
      const [rows] = await connection.query(sql);
      return rows as Record<string, unknown>[];
    } finally {
      connection.destroy();
    }
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  async remove(): Promise<void> {
    await this.process.remove();
  }
}
