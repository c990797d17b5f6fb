import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How long a client may still send requests before its answers pass, ms. */
const pause = 25;
/** The xid of a ping and of its answer. */
const pingXid = -2;
/** The xid of a message about a watch, which answers no request. */
const watchXid = -1;

/** Splits the bytes that a socket receives into messages of ZooKeeper. The length of each message comes before it. */
function messagesOf(socket: Socket, take: (message: Buffer, xid: number) => void): void {
  let rest = Buffer.alloc(0);
  let count = 0;
  socket.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const length = 4 + rest.readInt32BE(0);
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      // The first message in each direction is a greeting, and has no xid.
      take(message, count++ === 0 || length < 8 ? pingXid : message.readInt32BE(4));
    }
  });
}

/**
 * Stands before a ZooKeeper server and counts round trips: how often a client sent a request after it had got its answers. All answers of
 * one round trip pass together, when the server has answered all requests. So the count does not depend on how TCP splits and delays
 * them.
 */
export class TurnCounter {
  turns = 0;
  readonly #server: Server;

  private constructor(target: number) {
    this.#server = createServer((client) => {
      const server = connect(target, "127.0.0.1");
      let asked = 0;
      let answers: Buffer[] = [];
      const pass = (): void => {
        if (answers.length === 0 || answers.length < asked) return;
        this.turns++;
        client.write(Buffer.concat(answers));
        [asked, answers] = [0, []];
      };
      messagesOf(client, (message, xid) => {
        if (xid !== pingXid) asked++;
        server.write(message);
      });
      messagesOf(server, (message, xid) => {
        if (xid === pingXid || xid === watchXid) return void client.write(message);
        answers.push(message);
        // Requests that the client sends at the same time may come in another piece. The event loop reads that piece before it runs
        // `pass`.
        if (answers.length === asked) setTimeout(() => setImmediate(pass), pause);
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

  /** How many round trips the work takes. No other requests may be under way. */
  async of(work: () => Promise<unknown>): Promise<number> {
    await sleep(pause);
    const before = this.turns;
    await work();
    return this.turns - before;
  }

  stop(): void {
    this.#server.close();
  }
}
