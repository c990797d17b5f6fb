import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "./holder.ts";
import { RedisServer } from "./redis.ts";
import { ask, freePort, ServerProcess } from "./servers.ts";

/** What the sentinels call the primary that they watch. */
const primaryName = "ids";

/** Three sentinels of the test's own, which watch a primary and its replica. */
export class Sentinels {
  readonly #processes: readonly ServerProcess[];
  readonly #ports: readonly number[];

  private constructor(processes: readonly ServerProcess[], ports: readonly number[]) {
    this.#processes = processes;
    this.#ports = ports;
  }

  /** Starts them, and waits until they could agree. Whoever replicates has to be there before. */
  static async watch(primary: RedisServer): Promise<Sentinels> {
    const ports = [await freePort(), await freePort(), await freePort()];
    const sentinels = new Sentinels(
      ports.map(() => new ServerProcess("sentinel")),
      ports,
    );
    try {
      await Promise.all(sentinels.#processes.map((each, i) => startSentinel(each, ports[i] ?? 0, primary.port)));
      for (const port of ports) {
        await eventually(
          () => ask(port, `SENTINEL CKQUORUM ${primaryName}\r\n`),
          (told) => told.startsWith("+OK 3 usable"),
        );
        await eventually(
          () => ask(port, `SENTINEL REPLICAS ${primaryName}\r\n`),
          (told) => told.startsWith("*1"),
        );
      }
    } catch (error) {
      await sentinels.remove();
      throw error;
    }
    return sentinels;
  }

  url(query = ""): string {
    return `redis+sentinel://${this.#ports.map((port) => `127.0.0.1:${port}`).join(",")}/${primaryName}${query}`;
  }

  async remove(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.remove()));
  }
}

async function startSentinel(process: ServerProcess, port: number, primary: number): Promise<void> {
  const file = join(process.folder, "sentinel.conf");
  const lines = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${process.folder}`,
    `logfile ${process.log}`,
    `sentinel monitor ${primaryName} 127.0.0.1 ${primary} 2`,
    `sentinel down-after-milliseconds ${primaryName} 500`,
    `sentinel failover-timeout ${primaryName} 5000`,
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  await process.start("redis-server", [file, "--sentinel"], async () => (await ask(port, "PING\r\n")).startsWith("+"));
}

const slots = 16_384;

/** A cluster of three primaries of the test's own. */
export class RedisCluster {
  readonly nodes: readonly RedisServer[];

  private constructor(nodes: readonly RedisServer[]) {
    this.nodes = nodes;
  }

  static async start(): Promise<RedisCluster> {
    const busPorts = [await freePort(), await freePort(), await freePort()];
    const options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port"];
    const nodes = await Promise.all(busPorts.map((port) => RedisServer.start([...options, String(port)])));
    const cluster = new RedisCluster(nodes);
    for (const [i, node] of nodes.entries()) {
      const [begin = 0, end = 0] = [i, i + 1].map((share) => Math.floor((slots * share) / nodes.length));
      await node.client().call("CLUSTER", "ADDSLOTSRANGE", begin, end - 1);
      await node.client().call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
    }
    for (const [i, { port }] of nodes.entries()) {
      await nodes[0]?.client().call("CLUSTER", "MEET", "127.0.0.1", port, busPorts[i] ?? 0);
    }
    for (const node of nodes) {
      await eventually(
        async () => String(await node.client().call("CLUSTER", "INFO")),
        (info) => info.includes("cluster_state:ok") && info.includes("cluster_known_nodes:3"),
      );
    }
    return cluster;
  }

  url(query = ""): string {
    return `redis+cluster://${this.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}${query}`;
  }

  /** The slot of a key, and who has it. */
  async ownerOf(key: string): Promise<{ slot: number; owner: RedisServer }> {
    const slot = Number(await this.nodes[0]?.client().call("CLUSTER", "KEYSLOT", key));
    const owner = this.nodes[Math.floor((slot * this.nodes.length) / slots)];
    if (owner === undefined) throw new Error(`Nobody has the slot ${slot}.`);
    return { slot, owner };
  }

  /** Moves a slot with what is in it, as `redis-cli --cluster reshard --cluster-replace` does. */
  async move(slot: number, from: RedisServer, to: RedisServer): Promise<void> {
    const [fromId, toId] = await Promise.all([idOf(from), idOf(to)]);
    await to.client().call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
    await from.client().call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
    for (;;) {
      const keys = (await from.client().call("CLUSTER", "GETKEYSINSLOT", slot, 10)) as string[];
      if (keys.length === 0) break;
      await from.client().call("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "REPLACE", "KEYS", ...keys);
    }
    for (const node of [to, from]) await node.client().call("CLUSTER", "SETSLOT", slot, "NODE", toId);
  }

  async remove(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.remove()));
  }
}

async function idOf(node: RedisServer): Promise<string> {
  return String(await node.client().call("CLUSTER", "MYID"));
}
