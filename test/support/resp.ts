import { once } from "node:events";
import { connect, type NetConnectOpts, type Socket } from "node:net";
import { eventually } from "./holder.ts";

/** A request in the clients' form. */
export function request(...words: readonly (string | number)[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${String(word).length}\r\n${word}\r\n`).join("")}`;
}

/** A connection that shows the received bytes. */
export class RawClient {
  readonly socket: Socket;
  received = "";
  closed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => (this.received += chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => (this.closed = true));
  }

  /** @param place an address, or one with the URL `redis://127.0.0.1:7071`. */
  static async open(place: NetConnectOpts | string): Promise<RawClient> {
    const { hostname, port } = typeof place === "string" && place.startsWith("redis") ? new URL(place) : {};
    const where = typeof place !== "string" ? place : port ? { host: hostname, port: Number(port) } : { path: place };
    const socket = connect(where);
    const client = new RawClient(socket);
    await once(socket, "connect");
    return client;
  }

  send(text: string): this {
    this.socket.write(text, "latin1");
    return this;
  }

  /** Sends a request, and waits for an answer of this many lines; forgets earlier answers. */
  async ask(words: readonly (string | number)[], lines = 1): Promise<string> {
    this.received = "";
    this.send(request(...words));
    await this.lines(lines);
    return this.received;
  }

  /** Waits until this many lines have come. */
  async lines(count: number): Promise<string[]> {
    const all = (): string[] => this.received.split("\r\n").slice(0, -1);
    await eventually(
      async () => all().length >= count || this.closed,
      (is) => is,
    );
    return all();
  }

  async end(): Promise<string> {
    await eventually(
      async () => this.closed,
      (is) => is,
    );
    return this.received;
  }
}

/** The IDs of an answer. */
export function idsIn(text: string): bigint[] {
  return Array.from(text.matchAll(/^(\d{15,20})\r$/gm), ([, digits = ""]) => BigInt(digits));
}
