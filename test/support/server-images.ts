import { copyFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { contained } from "./containers.ts";
import type { DockerEngine } from "./docker.ts";
import { postgresPrograms } from "./postgres.ts";

/** Makes images with the names of the public ones, from this machine's own servers: they take the same command and environment. */
export async function makeServerImages(engine: DockerEngine): Promise<void> {
  for (const store of ["redis", "etcd"] as const) {
    const { image, command } = contained[store];
    await engine.makeImage(image, (root) => root.copyProgram(command[0]), "ENV PATH=/bin", "WORKDIR /data");
  }
  await makePostgres(engine);
}

const prepare = `#!/bin/sh
set -e
if [ ! -e "$PGDATA" ]; then
  initdb --auth=trust --username="$POSTGRES_USER" --encoding=UTF8 --locale=C --no-sync
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single postgres
  echo "host all all all trust" >> "$PGDATA/pg_hba.conf"
fi
exec "$@"
`;

async function makePostgres(engine: DockerEngine): Promise<void> {
  const bin = postgresPrograms ?? "";
  await engine.makeImage(
    contained.postgres.image,
    (root) => {
      root.copyProgram("sh");
      for (const name of ["initdb", "postgres"]) root.copyLinked(join(bin, name));
      const libraries = join(dirname(bin), "lib");
      root.makeFolder(libraries);
      for (const name of readdirSync(libraries).filter((each) => each.endsWith(".so"))) {
        copyFileSync(join(libraries, name), join(root.folder, libraries, name));
      }
      root.copyFolder(dirname(bin).replace("/lib/", "/share/"));
      root.copy("/usr/share/zoneinfo/UTC");
      root.write("etc/passwd", "postgres:x:999:999::/:/bin/sh\n");
      // It refuses to run as root.
      root.makeFolder("var/lib/postgresql", 0o777);
      root.write("prepare", prepare, 0o755);
    },
    `ENV PATH=${bin}:/bin PGDATA=/var/lib/postgresql/data`,
    "USER 999:999",
    'ENTRYPOINT ["/prepare"]',
    `CMD ["postgres", "-c", "listen_addresses=*", "-c", "unix_socket_directories=", "-c", "jit=off"]`,
  );
}
