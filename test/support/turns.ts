import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** How long a client may send more before its answers pass, ms. */
const pause = 25;
/** Of a ping and of the answer to it. */
const pingXid = -2;
/** Of a message about a watch, which answers no request. */
const watchXid = -1;

/** Cuts what a socket receives into messages of ZooKeeper: each has its length before it. */
function messagesOf(socket: Socket, take: (message: Buffer, xid: number) => void): void {
  let rest = Buffer.alloc(0);
  let count = 0;
  socket.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const length = 4 + rest.readInt32BE(0);
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      // The first message each way greets, and has no xid.
      take(message, count++ === 0 || length < 8 ? pingXid : message.readInt32BE(4));
    }
  });
}

/**
 * Stands before a ZooKeeper server and counts round trips: how often a client spoke after an answer. All answers of one round
 * trip pass together, when the server has answered all requests, so that TCP's cuts and delays do not count.
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
        // A client's simultaneous requests may lie in another piece: it is read before the timer's next turn of the loop ends.
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

  /** How many round trips an operation takes. No other one may run. */
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
