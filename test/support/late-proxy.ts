import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * Stands between a client and a server on this machine. It keeps one write on its way until the test lets the write arrive. The write
 * arrives even if its sender has given up long before, and over a new connection if the server has started again meanwhile. Or it keeps
 * the answer to one write, and then breaks the connection.
 */
export class LateProxy {
  readonly #server: Server;
  readonly #target: number;
  /** Recognizes a write. */
  readonly #mark: RegExp;
  readonly #clients = new Set<Socket>();
  /** The bytes on their way, in order. */
  readonly #kept: (() => void)[] = [];
  /** What the proxy keeps next. */
  #armed: "write" | "answer" | undefined;
  /** The client that waits for the kept answer. */
  #unheard: Socket | undefined;
  #onKept = (): void => undefined;

  private constructor(server: Server, target: number, mark: RegExp) {
    this.#server = server;
    this.#target = target;
    this.#mark = mark;
    server.on("connection", (client) => this.#accept(client));
  }

  /** @param target port of the server. @param mark matches every write, and no read. */
  static async start(target: number, mark: RegExp): Promise<LateProxy> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new LateProxy(server, target, mark);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Keeps the next write, and all later bytes of its connection. Resolves when the write is on its way. */
  keepNext(): Promise<void> {
    return this.#arm("write");
  }

  /** Keeps the answer to the next write, and all bytes after it. Resolves when its first bytes come. */
  keepAnswer(): Promise<void> {
    return this.#arm("answer");
  }

  /** Breaks the connection of the kept answer. */
  lose(): void {
    this.#unheard?.resetAndDestroy();
    this.#unheard = undefined;
  }

  /** Lets the kept bytes arrive. */
  arrive(): void {
    this.#armed = undefined;
    for (const send of this.#kept.splice(0)) send();
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const client of this.#clients) client.destroy();
    await once(this.#server, "close");
  }

  #arm(what: "write" | "answer"): Promise<void> {
    this.#armed = what;
    return new Promise((resolve) => (this.#onKept = resolve));
  }

  #accept(client: Socket): void {
    this.#clients.add(client);
    const wire = { client, server: connect(this.#target, "127.0.0.1"), isKept: false };
    this.#answer(wire);
    client.setNoDelay();
    client.on("data", (bytes: Buffer) => {
      const isWrite = this.#armed !== undefined && this.#mark.test(bytes.toString("latin1"));
      if (isWrite && this.#armed === "write") wire.isKept = true;
      if (isWrite && this.#armed === "answer") [this.#armed, this.#unheard] = [undefined, client];
      if (!wire.isKept) {
        wire.server.write(bytes);
        return;
      }
      this.#kept.push(() => {
        wire.isKept = false;
        if (!wire.server.writable) {
          wire.server = connect(this.#target, "127.0.0.1");
          this.#answer(wire);
        }
        wire.server.write(bytes);
        if (client.destroyed) wire.server.end();
      });
      this.#onKept();
    });
    client.on("error", () => undefined);
    client.on("close", () => {
      this.#clients.delete(client);
      if (!wire.isKept) wire.server.end();
    });
  }

  /** Passes on the server's answers, and the end of its connection, unless a write is on its way to the server. */
  #answer(wire: { readonly client: Socket; readonly server: Socket; readonly isKept: boolean }): void {
    const { client, server } = wire;
    server.setNoDelay();
    server.on("data", (bytes) => {
      if (client === this.#unheard) this.#onKept();
      else if (client.writable) client.write(bytes);
    });
    server.on("error", () => undefined);
    server.on("close", () => wire.isKept || client.destroy());
  }
}
