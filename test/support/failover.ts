import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { expect } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { HolderProcess, type HolderState } from "./holder.ts";
import type { RedisServer } from "./redis.ts";

export const namespace = "orders";

/** With these limits a quarantine lasts 5 s. On a busy machine a request takes a second, and its clock is behind by as much. */
export const limits = { maxWindow: 1000, maxClockSkew: 2000 };

/** Creates the namespace of these tests. */
export async function init(registry: Registry): Promise<void> {
  await registry.init({ new: true, namespace, layout: defaultLayout.fingerprint, ...limits });
}

/** The end of the last quarantine, as the server has stored it. */
export async function quarantineOf(server: RedisServer): Promise<number> {
  return Number(await server.client().hget(`workerId/${namespace}:meta`, "quarantineEnd"));
}

/** Ends the quarantine of a namespace, as if its time had passed. Returns the end that it had. */
export async function passQuarantine(server: RedisServer, name: string = namespace): Promise<number> {
  const now = Date.now();
  await server.client().hset(`workerId/${name}:meta`, "quarantineEnd", now, "opensAt", now);
  return now;
}

/** Processes that make IDs in one namespace. At the end, all IDs are compared. */
export class Holders {
  readonly #all: HolderProcess[] = [];

  /** Adds a holder that has not started yet. */
  add(registry: string, options: object = {}): HolderProcess {
    const { maxWindow: window } = limits;
    const made = new HolderProcess({ registry, namespace, window, operationTimeout: 1000, ...options });
    this.#all.push(made);
    return made;
  }

  /** Starts a holder that makes IDs all the time. */
  async run(registry: string, options: object = {}): Promise<{ holder: HolderProcess; begun: HolderState }> {
    const holder = this.add(registry, options);
    const begun = await holder.ask("start");
    await holder.ask("run");
    return { holder, begun };
  }

  /** Every ID that was made. */
  ids(): bigint[] {
    return this.#all.flatMap((holder) => holder.ids());
  }

  /** Ends all holders, and compares all IDs with each other. */
  async expectDistinct(): Promise<void> {
    for (const holder of this.#all) await holder.ask("close").catch(() => undefined);
    const ids = this.ids();
    expect(ids.length).toBeGreaterThan(1000);
    expect(new Set(ids).size).toBe(ids.length);
  }

  async kill(): Promise<void> {
    await Promise.all(this.#all.map((holder) => holder.kill()));
  }
}

/** The embedded times of the IDs in their order, Unix ms. */
export function timesOf(holder: HolderProcess): number[] {
  return holder.ids().map((id) => defaultLayout.decompose(id).timestamp);
}

/** An address that stays while the server behind it changes, as a virtual IP does. */
export class Address {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  #port: number;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#port = port;
    server.on("connection", (client) => {
      const upstream = connect(this.#port, "127.0.0.1");
      client.pipe(upstream).pipe(client);
      for (const socket of [client, upstream]) {
        this.#open.add(socket);
        socket.on("error", () => undefined);
        socket.on("close", () => {
          this.#open.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
    });
  }

  static async of(port: number): Promise<Address> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Address(server, port);
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** From now on, another server answers here. Connected clients must connect again. */
  move(port: number): void {
    this.#port = port;
    for (const socket of this.#open) socket.destroy();
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.move(this.#port);
    await once(this.#server, "close");
  }
}
