import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Flavor, installing, MariadbServer } from "./mariadb.ts";

/** The folder to which Debian's package `mysql-server-core` was unpacked, on a system that has another version or none. */
const home = process.env["MYSQL9_HOME"];

const command = home === undefined ? ["mysqld"] : unpacked(home);

/** The loader and the library folders of an unpacked program. It brings its own libraries, and the loader for them. */
function unpacked(root: string): string[] {
  const libraries = join(root, "usr/lib/x86_64-linux-gnu");
  const loader = [join(libraries, "ld-linux-x86-64.so.2"), "--library-path", libraries];
  return [...(existsSync(loader[0] ?? "") ? loader : []), join(root, "usr/sbin/mysqld")];
}

function versionOf([program = "", ...args]: readonly string[]): string {
  return spawnSync(program, [...args, "--no-defaults", "--version"], { encoding: "utf8" }).stdout ?? "";
}

const version = versionOf(command);

/** Why there is no MySQL to start; undefined if there is one. No stable release of Debian has it, so it may be missing under CI, too. */
export const mysqlMissing: string | undefined =
  process.platform === "linux" && /Ver \d/.test(version) && !/mariadb/i.test(version)
    ? undefined
    : `MySQL is not installed: ${home === undefined ? "`mysqld` in the path is none, and MYSQL9_HOME (where its package was unpacked to) is not set" : `there is none in MYSQL9_HOME, ${home}`}`;

const flavor: Flavor = {
  name: "mysql",
  command: [
    ...command,
    "--no-defaults",
    "--user=root",
    ...(home === undefined ? [] : [`--basedir=${home}/usr`, `--lc-messages-dir=${home}/usr/share/mysql`]),
    "--secure-file-priv=NULL",
  ],
  install(data) {
    // The server looks up no host names, so no client is `localhost`.
    const init = join(dirname(data), "init.sql");
    writeFileSync(init, "CREATE USER root@127.0.0.1;\nGRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;\n");
    const [program = "", ...args] = this.command;
    const options = [`--datadir=${data}`, "--initialize-insecure", `--init-file=${init}`];
    execFileSync(program, [...args, ...options], installing(data));
  },
};

/** The folder of the plugins, for an unpacked server. */
export const pluginOptions: readonly string[] = home === undefined ? [] : [`--plugin-dir=${home}/usr/lib/mysql/plugin`];

/** Starts a server on a free port, with an empty database `snowlease`. Everything that it acknowledges is on disk. */
export function startMysql(options: readonly string[] = []): Promise<MariadbServer> {
  const own = ["--mysqlx=OFF", "--innodb-redo-log-capacity=16M", ...options];
  return MariadbServer.start(own, flavor);
}
