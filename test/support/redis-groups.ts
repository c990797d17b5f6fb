import { Redis } from "ioredis";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Certificates, tlsOptions, tlsSettings } from "./certificates.ts";
import { eventually } from "./holder.ts";
import { RedisServer } from "./redis.ts";
import { ask, freePort, ServerProcess } from "./servers.ts";

/** The name that the sentinels have for the primary that they watch. */
const primaryName = "ids";

/** How clients log in to a group, and how its servers log in to each other. */
interface Access {
  /** The servers take TLS, too. */
  readonly certificates?: Certificates | undefined;
  /** The password of the user `default`, which a client without a user name needs. */
  readonly password?: string | undefined;
  /** A user of the sentinels' own, with the rights that a client needs. */
  readonly user?: { readonly name: string; readonly password: string } | undefined;
}

/** Three sentinels of the test's own, which watch a primary and its replica. */
export class Sentinels {
  readonly #processes: readonly ServerProcess[];
  /** The ports for clients. */
  readonly ports: readonly number[];

  private constructor(processes: readonly ServerProcess[], ports: readonly number[]) {
    this.#processes = processes;
    this.ports = ports;
  }

  /**
   * Starts the sentinels, and waits until they could agree. All replicas must run before.
   * @param port of the primary.
   */
  static async watch(
    primary: RedisServer,
    { certificates, password, user }: Access = {},
    port = primary.port,
  ): Promise<Sentinels> {
    const ports = [await freePort(), await freePort(), await freePort()];
    const tlsPorts = certificates && [await freePort(), await freePort(), await freePort()];
    const sentinels = new Sentinels(
      ports.map(() => new ServerProcess("sentinel")),
      tlsPorts ?? ports,
    );
    const lines = [
      `sentinel monitor ${primaryName} 127.0.0.1 ${port} 2`,
      `sentinel down-after-milliseconds ${primaryName} 500`,
      `sentinel failover-timeout ${primaryName} 5000`,
    ];
    if (primary.password !== undefined) lines.push(`sentinel auth-pass ${primaryName} ${primary.password}`);
    if (user !== undefined) {
      // The commands that the driver sends to sentinels, and no others.
      const rights =
        "-@all +auth +hello +ping +client|setname +info +sentinel|get-master-addr-by-name +sentinel|sentinels";
      lines.push(`user ${user.name} on >${user.password} ~* &* ${rights}`);
    }
    if (password !== undefined) lines.push(`requirepass ${password}`, `sentinel sentinel-pass ${password}`);
    try {
      await Promise.all(
        sentinels.#processes.map(async (each, i) => {
          const tls = certificates === undefined ? [] : tlsSettings(certificates, tlsPorts?.[i] ?? 0);
          await startSentinel(each, ports[i] ?? 0, [...lines, ...tls.map((setting) => setting.join(" "))]);
        }),
      );
      for (const each of ports) await agreeing(each, password);
    } catch (error) {
      await sentinels.remove();
      throw error;
    }
    return sentinels;
  }

  /** `login`: for the servers that they watch, with an `@`. */
  url(query = "", login = ""): string {
    return `redis+sentinel://${login}${addresses(this.ports)}/${primaryName}${query}`;
  }

  /**
   * Makes the sentinels replace the primary. Resolves to false if they cannot at the moment. Works only if the sentinels need no
   * password.
   */
  async failOver(): Promise<boolean> {
    const sentinel = new Redis({ port: this.ports[0] ?? 0 });
    try {
      return (await sentinel.call("SENTINEL", "FAILOVER", primaryName)) === "OK";
    } catch {
      return false;
    } finally {
      sentinel.disconnect();
    }
  }

  async remove(): Promise<void> {
    await Promise.all(this.#processes.map((each) => each.remove()));
  }
}

function addresses(ports: readonly number[]): string {
  return ports.map((port) => `127.0.0.1:${port}`).join(",");
}

async function startSentinel(process: ServerProcess, port: number, lines: readonly string[]): Promise<void> {
  const file = join(process.folder, "sentinel.conf");
  const own = [`port ${port}`, "bind 127.0.0.1", `dir ${process.folder}`, `logfile ${process.log}`];
  writeFileSync(file, `${[...own, ...lines].join("\n")}\n`);
  await process.start("redis-server", [file, "--sentinel"], async () =>
    /^(?:\+PONG|-NOAUTH)/.test(await ask(port, "PING\r\n")),
  );
}

/** Waits until a sentinel knows the others, and a replica. */
async function agreeing(port: number, password: string | undefined): Promise<void> {
  const sentinel = new Redis({ port, ...(password !== undefined && { password }) });
  try {
    await eventually(
      () => sentinel.call("SENTINEL", "CKQUORUM", primaryName).catch(String),
      (told) => String(told).startsWith("OK 3 usable"),
    );
    await eventually(
      () => sentinel.call("SENTINEL", "REPLICAS", primaryName),
      (told) => (told as unknown[]).length === 1,
    );
  } finally {
    sentinel.disconnect();
  }
}

const slots = 16_384;

/** A cluster of three primaries of the test's own. */
export class RedisCluster {
  readonly nodes: readonly RedisServer[];
  readonly #tlsPorts: readonly number[];

  private constructor(nodes: readonly RedisServer[], tlsPorts: readonly number[]) {
    this.nodes = nodes;
    this.#tlsPorts = tlsPorts;
  }

  static async start({ certificates, password }: Access = {}, more: readonly string[] = []): Promise<RedisCluster> {
    const busPorts = [await freePort(), await freePort(), await freePort()];
    const tlsPorts = certificates && [await freePort(), await freePort(), await freePort()];
    const options = [...more, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port"];
    const nodes = await Promise.all(
      busPorts.map((port, i) => {
        const tls =
          certificates === undefined ? [] : ["--tls-cluster", "yes", ...tlsOptions(certificates, tlsPorts?.[i] ?? 0)];
        return RedisServer.start([...options, String(port), ...tls], password);
      }),
    );
    const cluster = new RedisCluster(nodes, tlsPorts ?? []);
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

  url(query = "", login = ""): string {
    return `redis+cluster://${login}${addresses(this.nodes.map(({ port }) => port))}${query}`;
  }

  tlsUrl(query = "", login = ""): string {
    return `redis+cluster://${login}${addresses(this.#tlsPorts)}?tls=true${query}`;
  }

  /** The slot of a key, and the server that has it. */
  async ownerOf(key: string): Promise<{ slot: number; owner: RedisServer }> {
    const slot = Number(await this.nodes[0]?.client().call("CLUSTER", "KEYSLOT", key));
    const owner = this.nodes[Math.floor((slot * this.nodes.length) / slots)];
    if (owner === undefined) throw new Error(`Nobody has the slot ${slot}.`);
    return { slot, owner };
  }

  /** Moves a slot with its keys, as `redis-cli --cluster reshard --cluster-replace` does. */
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
