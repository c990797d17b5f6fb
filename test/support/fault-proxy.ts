import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * What happens to the bytes that go one way. `drop`: they are lost, as in a partition that lasts longer than the connection. `hold`: they
 * are kept on the way until the proxy heals, as in a shorter partition. Then they arrive, even if their sender has given up long before.
 */
type Way = "pass" | "drop" | "hold";

/** Faults of a network. Anything that is left out works as it should. */
export interface Faults {
  readonly toServer?: Way;
  readonly toClient?: Way;
  /** How long every piece takes each way, ms. */
  readonly delay?: number;
  /** New connections are reset at once. */
  readonly refuse?: boolean;
}

/** The bytes of both ways are lost. */
export const blackHole: Faults = { toServer: "drop", toClient: "drop" };

/** Stands between clients and a server on this machine, and causes the faults of a network on the way. */
export class FaultProxy {
  readonly #server: Server;
  readonly #target: number;
  readonly #wires = new Set<Wire>();
  #faults: Faults = {};

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
    server.on("connection", (client) => this.#accept(client));
  }

  /** @param target port of the server. */
  static async start(target: number): Promise<FaultProxy> {
    // The end of one side is passed on only when it arrives: with a delay, or never.
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FaultProxy(server, target);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many connections clients have open. */
  get open(): number {
    return [...this.#wires].filter(({ isOpen }) => isOpen).length;
  }

  /** Sets the faults from now on, for open connections as well as new ones. */
  set(faults: Faults): void {
    this.#faults = faults;
  }

  /** Ends all faults. Held bytes arrive. A connection that lost bytes is reset, since its ends would notice the loss. */
  heal(): void {
    this.#faults = {};
    for (const wire of this.#wires) wire.heal();
  }

  /** Resets all connections. */
  reset(): void {
    for (const wire of this.#wires) wire.reset();
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.reset();
    await once(this.#server, "close");
  }

  #accept(client: Socket): void {
    if (this.#faults.refuse) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ port: this.#target, host: "127.0.0.1", allowHalfOpen: true });
    const wire = new Wire(
      client,
      server,
      () => this.#faults,
      () => this.#wires.delete(wire),
    );
    this.#wires.add(wire);
  }
}

/** One connection through the proxy. */
class Wire {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #lanes: readonly Lane[];

  constructor(client: Socket, server: Socket, faults: () => Faults, onEnd: () => void) {
    this.#client = client;
    this.#server = server;
    this.#lanes = [new Lane(client, server, faults, "toServer"), new Lane(server, client, faults, "toClient")];
    let left = 2;
    for (const socket of [client, server]) {
      socket.setNoDelay();
      socket.on("close", () => --left === 0 && onEnd());
    }
  }

  get isOpen(): boolean {
    return !this.#client.destroyed && !this.#client.readableEnded;
  }

  heal(): void {
    if (this.#lanes.some(({ torn }) => torn)) this.reset();
    else for (const lane of this.#lanes) lane.flush(true);
  }

  reset(): void {
    for (const socket of [this.#client, this.#server]) {
      if (!socket.destroyed) socket.resetAndDestroy();
    }
  }
}

/** One way of a connection. */
class Lane {
  /** Whether bytes were lost. Later bytes cannot arrive then. */
  torn = false;
  /** The pieces on their way, in order. */
  readonly #pieces: { readonly due: number; readonly arrive: () => void }[] = [];

  constructor(from: Socket, to: Socket, faults: () => Faults, way: "toServer" | "toClient") {
    const send = (arrive: () => void): void => {
      const { [way]: fate = "pass", delay = 0 } = faults();
      if (fate === "drop") this.torn = true;
      if (this.torn) return;
      this.#pieces.push({ due: fate === "hold" ? Infinity : performance.now() + delay, arrive });
      if (fate === "pass" && delay > 0) setTimeout(() => this.flush(), delay + 1);
      else this.flush();
    };
    from.on("data", (bytes: Uint8Array) => send(() => to.writable && to.write(bytes)));
    from.on("end", () => send(() => to.end()));
    // A reset is passed on like an end.
    from.on("error", () => send(() => to.end()));
  }

  /** Lets the pieces arrive that are due, or all pieces. */
  flush(all = false): void {
    while (this.#pieces[0] !== undefined && (all || this.#pieces[0].due <= performance.now())) {
      this.#pieces.shift()?.arrive();
    }
  }
}
