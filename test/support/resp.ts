import { once } from "node:events";
import { connect, type NetConnectOpts, type Socket } from "node:net";

/** A request in the form in which clients send it. */
export function request(...words: readonly (string | number)[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${String(word).length}\r\n${word}\r\n`).join("")}`;
}

/** A connection that shows the received bytes. */
export class RawClient {
  readonly socket: Socket;
  received = "";
  closed = false;
  /** Called after bytes arrive, and at the end. */
  #onChange: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => {
      this.received += chunk;
      this.#onChange();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.closed = true;
      this.#onChange();
    });
  }

  /** @param place an address, or as text `redis://127.0.0.1:7071` or the path of a socket. */
  static async open(place: NetConnectOpts | string): Promise<RawClient> {
    const socket = connect(typeof place === "string" ? optionsOf(place) : place);
    const client = RawClient.over(socket);
    await once(socket, "connect");
    return client;
  }

  static over(socket: Socket): RawClient {
    return new RawClient(socket);
  }

  send(text: string): this {
    this.socket.write(text, "latin1");
    return this;
  }

  /** Sends a request, and waits for an answer of so many lines. It forgets earlier answers. */
  async ask(words: readonly (string | number)[], lines = 1): Promise<string> {
    this.received = "";
    this.send(request(...words));
    await this.lines(lines);
    return this.received;
  }

  /** Waits until so many lines have come, or the connection has ended. */
  async lines(count: number): Promise<string[]> {
    const all = (): string[] => this.received.split("\r\n").slice(0, -1);
    await this.until(() => all().length >= count);
    return all();
  }

  /** Waits for the end of the connection. Returns all received text. */
  async end(): Promise<string> {
    await this.until(() => false);
    return this.received;
  }

  /** Waits until the received text fulfils a condition, or the connection has ended. */
  async until(isSo: () => boolean): Promise<void> {
    while (!this.closed && !isSo()) await new Promise<void>((resolve) => (this.#onChange = resolve));
  }
}

function optionsOf(place: string): NetConnectOpts {
  if (!place.startsWith("redis")) return { path: place };
  const { hostname, port } = new URL(place);
  return { host: hostname, port: Number(port) };
}

/** The IDs of an answer. */
export function idsIn(text: string): bigint[] {
  return Array.from(text.matchAll(/^(\d{15,20})\r$/gm), ([, digits = ""]) => BigInt(digits));
}
