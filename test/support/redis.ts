import { Redis } from "ioredis";
import type { ServerAddress } from "../../src/registries/url.ts";
import { parseAddress } from "../../src/registries/index.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { redisRegistry } from "../../src/registries/redis/registry.ts";
import { eventually } from "./holder.ts";
import { ask, isProgram, ServerProcess, startOnFreePort, whyMissing } from "./servers.ts";
import type { Program } from "./store-server.ts";

/** Options with which everything that a server acknowledges is on disk. */
export const durable: readonly string[] = ["--appendonly", "yes", "--appendfsync", "always"];

/** Why there is no redis-server to start; undefined if there is one. */
export const redisMissing: string | undefined = whyMissing(
  "redis-server",
  () => isProgram("redis-server"),
  "redis-server",
);

/** A redis-server of the test's own. */
export class RedisServer {
  readonly process: ServerProcess = new ServerProcess("redis");
  readonly port: number;
  /** The password of its user `default`, which replicas use, too. */
  readonly password: string | undefined;
  readonly #options: readonly string[];
  #client: Redis | undefined;

  private constructor(port: number, options: readonly string[], password: string | undefined) {
    this.port = port;
    this.password = password;
    this.#options =
      password === undefined ? options : [...options, "--requirepass", password, "--masterauth", password];
  }

  /** Starts a server on a free port. */
  static async start(options: readonly string[] = durable, password?: string): Promise<RedisServer> {
    return startOnFreePort((port) => new RedisServer(port, options, password));
  }

  /** Starts the server again, with the data that it had saved. */
  async start(more: readonly string[] = []): Promise<void> {
    const { folder, log } = this.process;
    const place = ["--port", String(this.port), "--bind", "127.0.0.1", "--dir", folder, "--logfile", log, "--save", ""];
    await this.process.start("redis-server", [...place, ...this.#options, ...more], async () => {
      return /^(?:\+PONG|-NOAUTH|-DENIED|-NOPERM|-MASTERDOWN)/.test(await ask(this.port, "PING\r\n"));
    });
  }

  url(query = ""): string {
    return `redis://127.0.0.1:${this.port}${query}`;
  }

  /** The test's own client, one for all its questions. */
  client(): Redis {
    this.#client ??= new Redis({
      host: "127.0.0.1",
      port: this.port,
      ...(this.password !== undefined && { password: this.password }),
      retryStrategy: (n) => Math.min(n * 20, 200),
    }).on("error", () => undefined);
    return this.#client;
  }

  /** Makes it a replica of the server on that port, and waits until it has the same data. */
  async follow(port: number): Promise<void> {
    await this.client().replicaof("127.0.0.1", port);
    await eventually(
      () => this.replication(),
      (told) => told.get("master_link_status") === "up",
    );
  }

  /** Makes a replica a primary. */
  async promote(): Promise<void> {
    await this.client().replicaof("NO", "ONE");
  }

  /** What it reports about its replication. */
  async replication(): Promise<Map<string, string>> {
    const lines = (await this.client().info("replication")).split("\r\n");
    return new Map(lines.map((line) => line.split(":", 2) as [string, string]));
  }

  async kill(): Promise<void> {
    await this.process.kill();
  }

  async remove(): Promise<void> {
    this.#client?.disconnect();
    await this.process.remove();
  }
}

/** redis-server as a program that a test can start. */
export const redisProgram: Program<RedisServer> = { missing: redisMissing, start: () => RedisServer.start() };

/** A registry at a Redis URL. */
export function openRedis(url: string, operationTimeout = 5000): Promise<Registry> {
  return redisRegistry(parseAddress(url) as ServerAddress, { operationTimeout });
}

/** The record that is stored at a key, without its token and its recents, which are stored beside it. */
export async function recordAt(client: Redis, key: string): Promise<Record<string, unknown> | undefined> {
  const script =
    "local text = redis.call('HGET', KEYS[1], 'record') return text and cjson.encode(cmsgpack.unpack(text))";
  const text = (await client.eval(script, 1, key)) as string | null;
  return text === null ? undefined : (JSON.parse(text) as Record<string, unknown>);
}

/** Puts another value into a field of a record, as JSON, or removes the field. */
export async function spoilRecord(client: Redis, key: string, field: string, json?: string): Promise<void> {
  const script =
    "local record = cmsgpack.unpack(redis.call('HGET', KEYS[1], 'record')) " +
    "record[ARGV[1]] = ARGV[2] and cjson.decode('[' .. ARGV[2] .. ']')[1] " +
    "redis.call('HSET', KEYS[1], 'record', cmsgpack.pack(record))";
  await client.eval(script, 1, key, field, ...(json === undefined ? [] : [json]));
}
