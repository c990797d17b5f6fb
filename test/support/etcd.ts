import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { etcdRegistry } from "../../src/registries/etcd/registry.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { ServerAddress } from "../../src/registries/url.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Certificates } from "./certificates.ts";
import { freePort, isProgram, ServerProcess, whyMissing } from "./servers.ts";
import type { Program } from "./store-server.ts";

const run = promisify(execFile);

/** Why there is no etcd to start; undefined if there is one. */
export const etcdMissing: string | undefined = whyMissing(
  "etcd",
  () => isProgram("etcd") && isProgram("etcdctl"),
  "etcd-server etcd-client",
);

/** Options for the members of a cluster. */
interface EtcdOptions {
  readonly options?: readonly string[];
  /** Clients use TLS. */
  readonly certificates?: Certificates;
}

/** One member of a cluster. */
class EtcdMember {
  readonly process: ServerProcess = new ServerProcess("etcd");
  readonly port: number;
  readonly name: string;
  readonly peer: string;
  /** The address for its clients. */
  readonly client: string;
  /** The address at which it reports its health. Clients can read it without TLS, even if they need TLS otherwise. */
  readonly #health: string;
  readonly #how: EtcdOptions;
  cluster = "";

  constructor(name: string, [port = 0, peerPort = 0, healthPort = 0]: readonly number[], how: EtcdOptions) {
    this.name = name;
    this.port = port;
    this.client = `${how.certificates === undefined ? "http" : "https"}://127.0.0.1:${port}`;
    this.peer = `http://127.0.0.1:${peerPort}`;
    this.#health = `http://127.0.0.1:${healthPort}`;
    this.#how = how;
  }

  get data(): string {
    return join(this.process.folder, "data");
  }

  async start(): Promise<void> {
    const { options = [], certificates } = this.#how;
    const settings = {
      name: this.name,
      "data-dir": this.data,
      logger: "zap",
      "log-level": "warn",
      "listen-client-urls": this.client,
      "advertise-client-urls": this.client,
      "listen-peer-urls": this.peer,
      "initial-advertise-peer-urls": this.peer,
      "initial-cluster": this.cluster,
      "listen-metrics-urls": this.#health,
      "heartbeat-interval": "50",
      "election-timeout": "500",
      ...(certificates && { "cert-file": certificates.certificate, "key-file": certificates.key }),
    };
    const args = [...Object.entries(settings).map(([name, value]) => `--${name}=${value}`), ...options];
    await this.process.start("etcd", args, async () => {
      const answer = await fetch(`${this.#health}/health`, { signal: AbortSignal.timeout(2000) });
      return ((await answer.json()) as { health?: string }).health === "true";
    });
  }

  /** Whether it is the leader of a majority; false while it does not answer. */
  async leads(): Promise<boolean> {
    const signal = AbortSignal.timeout(1000);
    const url = `${this.client}/v3/maintenance/status`;
    const answer = await fetch(url, { method: "POST", body: "{}", signal }).catch(() => undefined);
    const { leader, header } = ((await answer?.json().catch(() => undefined)) ?? {}) as {
      readonly leader?: string;
      readonly header?: { readonly member_id: string };
    };
    return leader !== undefined && leader === header?.member_id;
  }
}

/** A cluster of the test's own. */
export class Etcd {
  readonly members: readonly EtcdMember[];
  readonly #scheme: string;

  private constructor(members: readonly EtcdMember[], scheme: string) {
    this.members = members;
    this.#scheme = scheme;
  }

  /** Starts a cluster of so many members on free ports. */
  static async start(size = 1, how: EtcdOptions = {}): Promise<Etcd> {
    // Another program may take a port between its choice and its use.
    for (let tries = 5; ; tries--) {
      const ports = await Promise.all(Array.from({ length: 3 * size }, freePort));
      const members = Array.from({ length: size }, (_, i) => new EtcdMember(`m${i}`, ports.slice(3 * i), how));
      const cluster = members.map(({ name, peer }) => `${name}=${peer}`).join(",");
      for (const member of members) member.cluster = cluster;
      const etcd = new Etcd(members, how.certificates === undefined ? "etcd" : "etcds");
      try {
        await Promise.all(members.map((member) => member.start()));
        return etcd;
      } catch (error) {
        await etcd.remove();
        if (tries === 1) throw error;
      }
    }
  }

  /** The only member, or the first one. */
  get first(): EtcdMember {
    const [member] = this.members;
    if (member === undefined) throw new Error("There is no member.");
    return member;
  }

  /** Waits until the members have a leader. */
  async leader(): Promise<EtcdMember> {
    for (;;) {
      for (const member of this.members) if (await member.leads()) return member;
      await sleep(20);
    }
  }

  /** The URL of all members, or of some. `rest`: prefix and query. */
  url(rest = "", ports: readonly number[] = this.members.map(({ port }) => port)): string {
    return `${this.#scheme}://${ports.map((port) => `127.0.0.1:${port}`).join(",")}${rest}`;
  }

  /** Runs etcdctl as an operator does, and returns what it prints. */
  async ctl(...args: readonly string[]): Promise<string> {
    const endpoints = this.members.map(({ client }) => client).join(",");
    const { stdout } = await run("etcdctl", [`--endpoints=${endpoints}`, ...args], {
      env: { ...process.env, ETCDCTL_API: "3" },
      maxBuffer: 64 * 1024 * 1024,
    });
    return stdout;
  }

  /** The keys with this beginning, without the prefix of the registry. */
  async keys(begin = ""): Promise<readonly string[]> {
    const lines = (await this.ctl("get", "--prefix", "--keys-only", `snowlease/${begin}`)).split("\n");
    return lines.filter((line) => line !== "").map((line) => line.slice("snowlease/".length));
  }

  /** The cluster's revision. */
  async revision(): Promise<number> {
    const { header } = JSON.parse(await this.ctl("get", "nothing", "--write-out=json")) as {
      header: { revision: number };
    };
    return header.revision;
  }

  /** Raises the revision by so many, with writes of an unused key. */
  async raise(by: number): Promise<void> {
    for (let i = 0; i < by; i++) {
      const body = JSON.stringify({ key: btoa("filler"), value: "" });
      const answer = await fetch(`${this.first.client}/v3/kv/put`, { method: "POST", body });
      if (!answer.ok) throw new Error(`The revision was not raised: ${await answer.text()}`);
      await answer.text();
    }
  }

  /** Keeps a snapshot in a file. It is from the first member that gives one. */
  async snapshot(): Promise<string> {
    const file = join(this.first.process.folder, `snapshot-${crypto.randomUUID()}`);
    const taken = this.members.map(({ client }) => (): Promise<boolean> => {
      const args = [`--endpoints=${client}`, "--command-timeout=2s", "snapshot", "save", file];
      return run("etcdctl", args, { env: { ...process.env, ETCDCTL_API: "3" } }).then(
        () => true,
        () => false,
      );
    });
    for (const take of taken) if (await take()) return file;
    throw new Error("No member gives a snapshot.");
  }

  /** Puts all members back to a snapshot, as the documentation of etcd says. `placed`: called before they start. */
  async restore(snapshot: string, placed: () => void = () => undefined): Promise<void> {
    await Promise.all(this.members.map((member) => member.process.kill()));
    for (const { name, peer, cluster, data } of this.members) {
      await run("rm", ["-rf", data]);
      const member = [`--name=${name}`, `--initial-cluster=${cluster}`, `--initial-advertise-peer-urls=${peer}`];
      await run("etcdctl", ["snapshot", "restore", snapshot, `--data-dir=${data}`, ...member], {
        env: { ...process.env, ETCDCTL_API: "3" },
      });
    }
    placed();
    await Promise.all(this.members.map((member) => member.start()));
  }

  async remove(): Promise<void> {
    await Promise.all(this.members.map((member) => member.process.remove()));
  }
}

/** etcd as a program that a test can start. */
export const etcdProgram: Program<Etcd> = { missing: etcdMissing, start: () => Etcd.start() };

/** A registry at an etcd URL. */
export function openEtcd(url: string, operationTimeout = 5000): Promise<Registry> {
  return etcdRegistry(parseAddress(url) as ServerAddress, { operationTimeout });
}
