import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";

/** How long everything is under way, ms: longer than a client takes to say all that it has to say. */
const delay = 25;

/** Stands before a server and counts round trips: how often a client spoke after it had been answered. */
export class TurnCounter {
  turns = 0;
  readonly #server: Server;

  private constructor(target: number) {
    this.#server = createServer((client) => {
      const server = connect(target, "127.0.0.1");
      let answered = true;
      client.on("data", (bytes) => {
        if (answered) this.turns++;
        answered = false;
        setTimeout(() => server.write(bytes), delay);
      });
      server.on("data", (bytes) => {
        answered = true;
        setTimeout(() => client.write(bytes), delay);
      });
      for (const [socket, other] of [
        [client, server],
        [server, client],
      ] as const) {
        socket.on("error", () => other.destroy());
        socket.on("close", () => other.destroy());
      }
    });
  }

  /** @param target port of the server. */
  static async start(target: number): Promise<TurnCounter> {
    const counter = new TurnCounter(target);
    counter.#server.listen(0, "127.0.0.1");
    await once(counter.#server, "listening");
    return counter;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many round trips something takes. */
  async of(work: () => Promise<unknown>): Promise<number> {
    const before = this.turns;
    await work();
    return this.turns - before;
  }

  stop(): void {
    this.#server.close();
  }
}
