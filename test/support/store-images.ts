import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { composedService, type ComposedStore } from "./compose.ts";
import type { DockerEngine, ImageRecipe } from "./docker.ts";
import { mariadb } from "./mariadb.ts";
import { postgresBin } from "./postgres.ts";

/**
 * For each store whose server program this machine has: how to make an image that starts with the same command, and takes the same login
 * and health check as the real image. PostgreSQL takes any password.
 */
const recipes = {
  redis: {
    environment: { PATH: "/usr/bin:/bin" },
    fill(image) {
      image.program("redis-server", "/usr/lib/redis-server");
      image.program("redis-cli");
      image.program("sh", "/bin/sh");
      // As in the real image, the server answers addresses other than loopback.
      image.script("/usr/bin/redis-server", 'exec /usr/lib/redis-server "$@" --protected-mode no');
    },
    volume: "/data",
  },
  postgres: {
    environment: { PATH: `${postgresBin}:/usr/bin:/bin` },
    fill(image) {
      for (const name of ["sh", "chown"]) image.program(name, `/bin/${name}`);
      image.program("setpriv");
      for (const name of ["postgres", "initdb", "pg_isready"]) image.library(join(postgresBin ?? "", name));
      image.libraries(join(dirname(postgresBin ?? ""), "lib"));
      image.add(postgresBin?.replace("/lib/", "/share/").replace(/\/bin$/, "") ?? "");
      image.add("/usr/share/zoneinfo/UTC");
      image.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/data:/bin/sh\n");
      image.script(
        "/usr/bin/start",
        `as="setpriv --reuid=999 --regid=999 --clear-groups"
if [ ! -d /data/base ]; then
  chown postgres /data
  $as initdb -D /data -U snowlease -A trust -E UTF8 --locale=C
  echo "host all all all trust" >> /data/pg_hba.conf
  echo "CREATE DATABASE snowlease" | $as postgres --single -D /data postgres
fi
exec $as postgres -D /data -c listen_addresses='*' -c timezone=UTC -c unix_socket_directories=`,
      );
    },
    command: ["start"],
    volume: "/data",
  },
  mariadb: {
    environment: { PATH: "/usr/sbin:/usr/bin:/bin" },
    fill(image) {
      image.program("mariadbd", "/usr/sbin/mariadbd");
      image.program("mariadb");
      image.add("/usr/share/mysql/english");
      image.add("/usr/share/mysql/charsets");
      const folder = mkdtempSync(join(tmpdir(), "snowlease-mariadb-"));
      try {
        mariadb.install(join(folder, "data"));
        image.add(join(folder, "data"), "/data");
      } finally {
        rmSync(folder, { recursive: true });
      }
      image.write(
        "/etc/init.sql",
        `CREATE DATABASE IF NOT EXISTS snowlease;
CREATE USER IF NOT EXISTS snowlease@'%' IDENTIFIED BY 'snowlease';
GRANT ALL ON snowlease.* TO snowlease@'%';
`,
      );
    },
    command: [
      "mariadbd",
      "--no-defaults",
      "--user=root",
      "--datadir=/data",
      "--init-file=/etc/init.sql",
      "--skip-name-resolve",
      "--socket=/tmp/s",
    ],
  },
  etcd: {
    environment: { PATH: "/usr/bin:/bin" },
    fill(image) {
      image.program("etcd");
      image.program("etcdctl");
    },
    volume: "/data",
  },
  zookeeper: {
    environment: { PATH: "/usr/bin:/bin", CLASSPATH: "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar" },
    fill(image) {
      image.program("sh", "/bin/sh");
      image.add("/usr/share/java");
      image.java();
      const settings = [
        "tickTime=2000",
        "dataDir=/data",
        "clientPort=2181",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr",
      ];
      image.write("/etc/zoo.cfg", `${settings.join("\n")}\n`);
      image.script(
        "/usr/bin/zkServer.sh",
        "exec java org.apache.zookeeper.client.FourLetterWordMain 127.0.0.1 2181 srvr",
      );
    },
    command: ["java", "-Xmx128m", "org.apache.zookeeper.server.ZooKeeperServerMain", "/etc/zoo.cfg"],
    volume: "/data",
  },
} satisfies Partial<Record<ComposedStore, ImageRecipe>>;

type MadeStore = keyof typeof recipes;

/** The stores whose images can be made here. */
export const madeStores: readonly MadeStore[] = Object.keys(recipes) as MadeStore[];

/**
 * Makes images for an engine, with the names in docker-compose.yml but without their digests. Each contains this machine's server
 * program.
 */
export async function makeStoreImages(engine: DockerEngine, stores: readonly MadeStore[]): Promise<void> {
  for (const store of stores) await engine.make(composedService(store).tag, recipes[store]);
}
