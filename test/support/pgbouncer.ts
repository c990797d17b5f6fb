import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { asPostgres } from "./postgres.ts";
import { freePort, isProgram, ServerProcess, whyMissing } from "./servers.ts";

const command = "/usr/sbin/pgbouncer";

/** Why there is no PgBouncer to start; undefined if there is one. */
export const pgbouncerMissing: string | undefined = whyMissing("PgBouncer", () => isProgram(command), "pgbouncer");

/** A PgBouncer of the test's own. Each transaction runs on the first free one of two connections to the server. */
export class Pgbouncer {
  readonly #process = new ServerProcess("pgbouncer");
  readonly #port: number;

  private constructor(port: number) {
    this.#port = port;
  }

  /** Starts a PgBouncer in front of the PostgreSQL on a port. */
  static async start(target: number): Promise<Pgbouncer> {
    const bouncer = new Pgbouncer(await freePort());
    const { folder } = bouncer.#process;
    const lines = [
      "[databases]",
      `postgres = host=127.0.0.1 port=${target} user=postgres`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${bouncer.#port}`,
      "unix_socket_dir =",
      "auth_type = any",
      "pool_mode = transaction",
      "default_pool_size = 2",
    ];
    writeFileSync(bouncer.#config, `${lines.join("\n")}\n`);
    if (asPostgres !== undefined) chownSync(folder, asPostgres.uid, asPostgres.gid);
    await bouncer.start();
    return bouncer;
  }

  get #config(): string {
    return join(this.#process.folder, "pgbouncer.ini");
  }

  /** Starts the PgBouncer again. */
  async start(): Promise<void> {
    const answers = async (): Promise<boolean> => {
      const client = new pg.Client({ connectionString: this.url() });
      client.on("error", () => undefined);
      await client.connect();
      await client.end();
      return true;
    };
    await this.#process.start(command, [this.#config], answers, asPostgres?.prefix);
  }

  url(query = ""): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/postgres${query}`;
  }

  async kill(): Promise<void> {
    await this.#process.kill();
  }

  async remove(): Promise<void> {
    await this.#process.remove();
  }
}
