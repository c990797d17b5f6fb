import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Flavor, mariadb, mariadbMissing, MariadbServer } from "./mariadb.ts";
import { freePort } from "./servers.ts";

const provider = "/usr/lib/galera/libgalera_smm.so";

/** Why there is no Galera cluster to start; undefined if there is one. */
export const galeraMissing: string | undefined =
  mariadbMissing ??
  (existsSync(provider)
    ? undefined
    : "Galera is not installed: as root, apt-get install --no-install-recommends galera-4");

const scripts = join(import.meta.dirname, "galera");

const flavor: Flavor = {
  ...mariadb,
  name: "galera",
  // A node that has not joined yet can already read system tables.
  first: "CREATE DATABASE IF NOT EXISTS snowlease",
  command: ["env", `PATH=${process.env["PATH"]}:${scripts}`, ...mariadb.command],
};

/** Two nodes of a cluster of the test's own. If the other node does not answer any more, only the first one goes on alone. */
export class TestCluster {
  readonly nodes: readonly [MariadbServer, MariadbServer];

  private constructor(nodes: readonly [MariadbServer, MariadbServer]) {
    this.nodes = nodes;
  }

  static async start(): Promise<TestCluster> {
    const ports = [await freePort(), await freePort()];
    const address = `gcomm://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`;
    const options = async (i: 0 | 1): Promise<string[]> => {
      const own = {
        "gmcast.listen_addr": `tcp://127.0.0.1:${ports[i]}`,
        "ist.recv_addr": `127.0.0.1:${await freePort()}`,
        "gcache.size": "16M",
        "pc.weight": 2 - i,
      };
      return [
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
        "--wsrep-on=ON",
        `--wsrep-provider=${provider}`,
        `--wsrep-cluster-address=${address}`,
        `--wsrep-node-address=127.0.0.1:${ports[i]}`,
        `--wsrep-node-name=node${i}`,
        "--wsrep-sst-method=copy",
        `--wsrep-provider-options=${Object.entries(own)
          .map(([name, value]) => `${name}=${value}`)
          .join(";")}`,
      ];
    };
    const first = await MariadbServer.start(await options(0), flavor, ["--wsrep-new-cluster"]);
    return new TestCluster([first, await MariadbServer.start(await options(1), flavor)]);
  }

  async remove(): Promise<void> {
    for (const node of this.nodes) await node.remove();
  }
}

/** Forms the cluster anew from this node, even if other nodes have data that it does not have. */
export async function formAnew(node: MariadbServer): Promise<void> {
  const file = join(node.data, "grastate.dat");
  writeFileSync(file, readFileSync(file, "utf8").replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"));
  await node.start(["--wsrep-new-cluster"]);
}
