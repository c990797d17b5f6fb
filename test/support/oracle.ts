import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type oracledb from "oracledb";
import { afterAll, vi } from "vitest";
import { parseAddress } from "../../src/registries/index.ts";
import { oracle } from "../../src/registries/sql/oracle/dialect.ts";
import type { DatabaseServer } from "./databases.ts";
import { driver } from "./oracle/driver.mjs";
import { ServerProcess, startOnFreePort, whyMissing } from "./servers.ts";

const jar = "/usr/share/java/hsqldb.jar";
const folder = join(import.meta.dirname, "oracle");

/** Replaces the driver by one that talks to the stand-in, for a test file that runs against the stand-in alone. */
export function driveStandIn(): { mockRestore(): void } {
  return vi.spyOn(oracle, "load").mockResolvedValue(driver);
}

/** The same for programs that are started with this environment. */
export const standInEnvironment: Readonly<Record<string, string>> = {
  NODE_OPTIONS: `--import=${pathToFileURL(join(folder, "instead.mjs")).href}`,
};

/** Why there is no stand-in for Oracle to start; undefined if there is one. */
export const standInMissing: string | undefined = whyMissing(
  "HSQLDB",
  () => existsSync(jar),
  "default-jre-headless libhsqldb-java",
);

let classes: string | undefined;
afterAll(() => {
  if (classes !== undefined) rmSync(classes, { recursive: true, force: true });
});

/** The folder of the compiled bridge. It is compiled once, by the compiler that a JRE of Debian brings. */
function bridgeFolder(): string {
  if (classes !== undefined) return classes;
  const target = mkdtempSync(join(tmpdir(), "snowlease-bridge-"));
  execFileSync("java", ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", target, join(folder, "Bridge.java")]);
  classes = target;
  return target;
}

/** The rows of a statement by column name. */
async function queryOn(
  { OUT_FORMAT_ARRAY, BUFFER }: typeof driver,
  connection: Pick<oracledb.Connection, "execute">,
  text: string,
): Promise<Record<string, unknown>[]> {
  const options: oracledb.ExecuteOptions = {
    outFormat: OUT_FORMAT_ARRAY,
    fetchTypeHandler: ({ dbTypeName }) => (dbTypeName === "BLOB" ? { type: BUFFER } : undefined),
  };
  const { rows = [], metaData = [] } = await connection.execute<unknown[]>(text, {}, options);
  const names = metaData.map(({ name }) => name.toLowerCase());
  return rows.map((row) => Object.fromEntries(row.map((cell, i) => [names[i] ?? "", cell])));
}

/** The stand-in as one of the databases that a test runs on. */
export const oracleStandIn = {
  name: "a stand-in for Oracle",
  missing: standInMissing,
  start: (): Promise<DatabaseServer> => OracleStandIn.start(),
} as const;

/**
 * No Oracle can be started here. A database that takes its syntax (HSQLDB) replaces it, behind a bridge. The statements are Oracle's, and
 * run unchanged. Only driver and server are not the real ones.
 */
export class OracleStandIn implements DatabaseServer {
  readonly process: ServerProcess = new ServerProcess("oracle");
  readonly port: number;
  readonly #zone: string;

  private constructor(port: number, zone: string) {
    this.port = port;
    this.#zone = zone;
  }

  /** Starts a stand-in on a free port. Everything that it acknowledges is on disk. `zone`: its time zone. */
  static async start(zone = "Pacific/Chatham"): Promise<OracleStandIn> {
    return startOnFreePort((port) => new OracleStandIn(port, zone));
  }

  /** Starts it again, with the data that it had saved. */
  async start(): Promise<void> {
    const url = `jdbc:hsqldb:file:${join(this.process.folder, "ids")};sql.syntax_ora=true;hsqldb.tx=mvcc;hsqldb.write_delay=false;hsqldb.lock_file=false`;
    const machine = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", `-Duser.timezone=${this.#zone}`];
    const bridge = ["Bridge", url, String(this.port), join(folder, "dictionary.sql")];
    const answers = async (): Promise<boolean> => {
      await this.query("SELECT 1 FROM dual");
      return true;
    };
    await this.process.start("java", [...machine, "-cp", `${jar}:${bridgeFolder()}`, ...bridge], answers);
  }

  url(query = ""): string {
    return `oracle://ids@127.0.0.1:${this.port}/ids${query}`;
  }

  /** Runs one statement by a client of the test's own. */
  async query(text: string): Promise<Record<string, unknown>[]> {
    const connection = await driver.getConnection({
      connectString: `(HOST=127.0.0.1)(PORT=${this.port})(SERVICE_NAME=ids)`,
    });
    try {
      const rows = await queryOn(driver, connection, text);
      await connection.execute("COMMIT", {}, { outFormat: driver.OUT_FORMAT_ARRAY });
      return rows;
    } finally {
      await connection.close();
    }
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  async remove(): Promise<void> {
    await this.process.remove();
  }
}

/** A real Oracle server, at a registry URL. */
export class RealOracle {
  readonly #url: string;
  readonly remove: () => Promise<void>;

  constructor(url: string, remove: () => Promise<void>) {
    this.#url = url;
    this.remove = remove;
  }

  url(query = ""): string {
    return this.#url + query;
  }

  /** Runs one statement by a client of the test's own. */
  async query(text: string): Promise<Record<string, unknown>[]> {
    const { default: real } = await import("oracledb");
    const address = parseAddress(this.#url);
    if (address.kind !== "oracle") throw new Error("ORACLE_URL has to begin with oracle://.");
    const { servers, user, password, path } = address;
    const where = `${servers[0]?.host}:${servers[0]?.port}/${path}`;
    const connection = await real.getConnection({ user, password, connectString: where });
    try {
      const rows = await queryOn(real, connection, text);
      await connection.commit();
      return rows;
    } finally {
      await connection.close();
    }
  }
}
