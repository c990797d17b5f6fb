import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** The end of an answer of PostgreSQL. */
const readyForQuery = Buffer.from("Z\0\0\0\u0005I", "latin1");

/** Stands between a client and a server, and cuts the connection after a piece of text that the client sends. */
export class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Cuts once, after the first piece that contains this text. `arrives`: whether the server still gets that piece. */
  cut: { readonly text: string; readonly arrives: boolean } | undefined;
  /** Replaces a text in the server's answers by another text of the same length. */
  translates: readonly [from: string, to: string] | undefined;
  /** Whether answers are held back for ever. */
  silent = false;
  /**
   * Answers of the server to pieces that only read. While `isCached`, the same piece gets the same answer again, as from a proxy with a
   * cache, or from a replica that lags.
   */
  readonly #reads = new Map<string, Buffer>();
  isCached = false;
  /** Whether a replica answers the pieces that only read, as with a proxy that relieves the writing server. */
  isSplit = false;
  /** How many pieces the replica got. */
  splits = 0;
  /** How often a client has sent data after it got an answer. */
  turns = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** @param replica the port of a PostgreSQL to which `isSplit` sends reads. */
  static async start(target: number, replica?: number): Promise<Wire> {
    const server = createServer();
    const wire = new Wire(server);
    const to = (port: number): Socket => connect(port, "127.0.0.1");
    server.on("connection", (client) =>
      wire.#join(client, to(target), replica === undefined ? undefined : to(replica)),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return wire;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server, "close");
  }

  #join(client: Socket, server: Socket, replica?: Socket): void {
    const sockets = replica === undefined ? [client, server] : [client, server, replica];
    const end = (): void => {
      for (const socket of sockets) socket.destroy();
    };
    for (const socket of sockets) {
      this.#sockets.add(socket);
      socket.on("error", end);
      socket.on("close", end);
    }
    let torn = false;
    let asked: string | undefined;
    let answered = true;
    let isGreeted = false;
    let isReady = false;
    const reads: Buffer[] = [];
    replica?.on("data", (bytes: Buffer) => {
      if (isReady) return void client.write(bytes);
      // The server answers the first piece. After its own answer to that piece, the replica waits for queries.
      isReady = bytes.includes(readyForQuery);
      if (isReady) for (const read of reads) replica.write(read);
    });
    client.on("data", (bytes: Buffer) => {
      const { cut } = this;
      if (!isGreeted) replica?.write(bytes);
      isGreeted = true;
      if (answered) this.turns++;
      answered = false;
      const text = bytes.toString("latin1");
      asked = /\bSELECT\b/.test(text) && !/\b(?:INSERT|UPDATE|DELETE|BEGIN|START|SET)\b/.test(text) ? text : undefined;
      const known = this.isCached ? this.#reads.get(text) : undefined;
      if (known !== undefined) {
        answered = true;
        return void client.write(known);
      }
      if (asked !== undefined && this.isSplit && replica !== undefined) {
        this.splits++;
        return void (isReady ? replica.write(bytes) : reads.push(bytes));
      }
      if (asked !== undefined && !this.isCached) this.#reads.set(asked, Buffer.alloc(0));
      if (cut !== undefined && bytes.includes(cut.text)) {
        this.cut = undefined;
        torn = true;
        if (!cut.arrives) return end();
      }
      server.write(bytes);
    });
    server.on("data", (bytes: Buffer) => {
      answered = true;
      const read = this.isCached || asked === undefined ? undefined : this.#reads.get(asked);
      if (asked !== undefined && read !== undefined) this.#reads.set(asked, Buffer.concat([read, bytes]));
      const [from = "", to = ""] = this.translates ?? [];
      for (let at = 0; from !== "" && (at = bytes.indexOf(from, at)) >= 0; at += to.length) bytes.write(to, at);
      // The answer shows that the server has done the request.
      if (torn) end();
      else if (!this.silent) client.write(bytes);
    });
  }
}
