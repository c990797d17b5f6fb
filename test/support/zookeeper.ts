import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServerAddress } from "../../src/registries/url.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { zooKeeperRegistry } from "../../src/registries/zookeeper/registry.ts";
import { blackHole, FaultProxy } from "./fault-proxy.ts";
import type { WallClock } from "./holder.ts";
import { ask, freePort, isProgram, ServerProcess, whyMissing } from "./servers.ts";
import type { Program } from "./store-server.ts";

/** How long an ensemble may take until it serves, ms. */
const patience = 60_000;
const jar = "/usr/share/java/zookeeper.jar";
/** Libraries that the jar itself does not name: for logs, and for TLS. */
const beside = ["slf4j-simple", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"].map(
  (name) => `/usr/share/java/${name}.jar`,
);

/** Why there is no ZooKeeper to start; undefined if there is one. */
export const zooKeeperMissing: string | undefined = whyMissing(
  "ZooKeeper",
  () => existsSync(jar) && isProgram("java"),
  "libzookeeper-java default-jre-headless",
);

/** Settings of each server. */
interface Setting {
  /** More lines of its configuration. */
  readonly settings?: readonly string[];
  /** Whether each server still serves clients that only read when there is no majority. */
  readonly readOnly?: boolean;
  /** Whether the last server is an observer, which does not vote. */
  readonly observer?: boolean;
  /** Its wall clock. */
  readonly clock?: Pick<WallClock, "environment">;
}

/** One server of an ensemble that has as many as it has peers, or a server alone. */
class ZooKeeperServer {
  readonly process: ServerProcess = new ServerProcess("zookeeper");
  readonly port: number;
  readonly #config: string;

  constructor(port: number, id: number, peers: readonly string[], { settings = [], readOnly = false, clock }: Setting) {
    this.port = port;
    // Otherwise, a JVM's timed waits never end under libfaketime.
    this.#environment = clock === undefined ? {} : { ...clock.environment, FAKETIME_FORCE_MONOTONIC_FIX: "0" };
    const data = join(this.process.folder, "data");
    mkdirSync(data);
    writeFileSync(join(data, "myid"), `${id}\n`);
    this.#config = join(this.process.folder, "zoo.cfg");
    const lines = [
      "tickTime=200",
      "initLimit=25",
      "syncLimit=10",
      "minSessionTimeout=400",
      "maxSessionTimeout=60000",
      `dataDir=${data}`,
      `clientPort=${port}`,
      "clientPortAddress=127.0.0.1",
      "admin.enableServer=false",
      "4lw.commands.whitelist=*",
      "maxClientCnxns=0",
      ...(peers.length > 0 ? ["standaloneEnabled=false", ...peers] : []),
      ...settings,
    ];
    writeFileSync(this.#config, `${lines.join("\n")}\n`);
    this.#arguments = [
      "-Xmx128m",
      "-XX:+UseSerialGC",
      "-XX:TieredStopAtLevel=1",
      "-Dorg.slf4j.simpleLogger.showDateTime=true",
      `-Dreadonlymode.enabled=${readOnly}`,
      "-cp",
      [this.process.folder, jar, ...beside].join(":"),
      peers.length > 0
        ? "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        : "org.apache.zookeeper.server.ZooKeeperServerMain",
      this.#config,
    ];
  }

  readonly #arguments: readonly string[];
  readonly #environment: Readonly<Record<string, string>>;

  /** The folder of its data. */
  get data(): string {
    return join(this.process.folder, "data", "version-2");
  }

  /** Starts the server, and waits until it listens. It serves when a majority does. */
  async start(): Promise<void> {
    this.#dropBegunLogs();
    const clock = Object.entries(this.#environment).map(([name, value]) => `${name}=${value}`);
    await this.process.start(
      "env",
      [...clock, "java", ...this.#arguments],
      async () => (await ask(this.port, "ruok")) === "imok",
    );
  }

  /** ZooKeeper does not start with an empty log. It leaves one if it is killed when it begins a log. */
  #dropBegunLogs(): void {
    const names = existsSync(this.data) ? readdirSync(this.data).filter((name) => name.startsWith("log.")) : [];
    const begun = names.map((name) => join(this.data, name)).filter((path) => statSync(path).size === 0);
    for (const path of begun) rmSync(path);
  }

  /** "standalone", "leader" or "follower"; undefined while it does not serve. */
  async mode(): Promise<string | undefined> {
    return /^Mode: (\w+)/m.exec(await ask(this.port, "srvr").catch(() => ""))?.[1];
  }

  /** How many requests have reached it. */
  async received(): Promise<number> {
    return Number(/^Received: (\d+)/m.exec(await ask(this.port, "srvr"))?.[1]);
  }
}

/** An ensemble of the test's own. */
export class ZooKeeper {
  readonly servers: readonly ZooKeeperServer[];
  /** The links between the last server and the others. */
  readonly #links: readonly FaultProxy[];

  private constructor(servers: readonly ZooKeeperServer[], links: readonly FaultProxy[]) {
    this.servers = servers;
    this.#links = links;
  }

  /** Starts an ensemble of so many servers on free ports. `cut`: the last server can be cut off from the others. */
  static async start(size = 1, cut = false, setting: Setting = {}): Promise<ZooKeeper> {
    // Another program may take a port between its choice and its use.
    for (let tries = 5; ; tries--) {
      const ports = await Promise.all(Array.from({ length: 3 * size }, freePort));
      const all = Array.from({ length: size }, (_, i) => i);
      const own = (i: number): number[] => [ports[size + i] ?? 0, ports[2 * size + i] ?? 0];
      const links = cut ? await Promise.all(all.flatMap((i) => own(i).map((port) => FaultProxy.start(port)))) : [];
      const linked = (i: number): number[] => links.slice(2 * i, 2 * i + 2).map(({ port }) => port);
      const last = size - 1;
      const servers = all.map((i) => {
        const peers = all.map((j) => {
          const between = cut && i !== j && (i === last || j === last);
          const role = setting.observer && j === last ? ":observer" : "";
          return `server.${j + 1}=127.0.0.1:${(between ? linked(j) : own(j)).join(":")}${role}`;
        });
        return new ZooKeeperServer(ports[i] ?? 0, i + 1, size > 1 ? peers : [], setting);
      });
      const ensemble = new ZooKeeper(servers, links);
      try {
        const first = cut ? servers.slice(0, -1) : servers;
        await Promise.all(first.map((server) => server.start()));
        await ensemble.serving(first);
        // Through the links, the last server sees peers that accept a connection and close it. So it cannot lead, and joins the others.
        if (cut) await servers[last]?.start();
        await ensemble.serving();
        return ensemble;
      } catch (error) {
        await ensemble.remove();
        if (tries === 1) throw error;
      }
    }
  }

  /** Waits until these servers take part. */
  async serving(servers: readonly ZooKeeperServer[] = this.servers): Promise<void> {
    for (const server of servers) {
      await this.#patiently("serve", async () => ((await server.mode()) === undefined ? undefined : server));
    }
  }

  leader(): Promise<ZooKeeperServer> {
    return this.#patiently("elect a leader", async () => {
      for (const server of this.servers) if (/leader|standalone/.test((await server.mode()) ?? "")) return server;
      return undefined;
    });
  }

  /** Waits for a state of the ensemble. If it does not come, the error has the logs of the servers, since only they can show why. */
  async #patiently<Found>(what: string, look: () => Promise<Found | undefined>): Promise<Found> {
    const end = performance.now() + patience;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > end) break;
      await sleep(20);
    }
    const logs = this.servers.map(({ process, port }) => `${port}:\n${readFileSync(process.log, "utf8").slice(-3000)}`);
    throw new Error(`The servers do not ${what}.\n${logs.join("\n")}`);
  }

  /** The URL of all servers, or of some. `rest`: chroot and query. */
  url(rest = "", ports: readonly number[] = this.servers.map(({ port }) => port)): string {
    return `zookeeper://${ports.map((port) => `127.0.0.1:${port}`).join(",")}${rest}`;
  }

  /** Cuts the last server off from the others; clients still reach it. */
  isolate(): void {
    for (const link of this.#links) link.set(blackHole);
  }

  /** Ends the isolation of the last server. */
  rejoin(): void {
    for (const link of this.#links) link.heal();
  }

  async remove(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.process.remove()));
    await Promise.all(this.#links.map((link) => link.stop()));
  }
}

/** ZooKeeper as a program that a test can start. */
export const zooKeeperProgram: Program<ZooKeeper> = { missing: zooKeeperMissing, start: () => ZooKeeper.start() };

/** A registry at a ZooKeeper URL. */
export function openZooKeeper(url: string, operationTimeout = 5000): Promise<Registry> {
  return zooKeeperRegistry(parseAddress(url) as ServerAddress, { operationTimeout });
}
