import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How long everything is under way, ms: longer than a client takes to say all that it has to say. */
const delay = 25;

/** Stands before a server and counts round trips: how often a client spoke after it had been answered. */
export class TurnCounter {
  turns = 0;
  readonly #server: Server;
  /** When bytes last passed, ms. */
  #passed = 0;

  private constructor(target: number) {
    this.#server = createServer((client) => {
      const server = connect(target, "127.0.0.1");
      let answered = true;
      client.on("data", (bytes) => {
        if (answered) this.turns++;
        answered = false;
        this.#pass(server, bytes);
      });
      server.on("data", (bytes) => {
        answered = true;
        this.#pass(client, bytes);
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

  #pass(to: Socket, bytes: Buffer): void {
    setTimeout(() => {
      to.write(bytes);
      this.#passed = performance.now();
    }, delay);
    this.#passed = performance.now();
  }

  /** How many round trips something takes. Begins when all is quiet: nothing of what came before, no heartbeat either, is under way. */
  async of(work: () => Promise<unknown>): Promise<number> {
    while (performance.now() - this.#passed < 4 * delay) await sleep(delay);
    const before = this.turns;
    await work();
    return this.turns - before;
  }

  stop(): void {
    this.#server.close();
  }
}
