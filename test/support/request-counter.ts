import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Stands before an HTTP server and counts the requests that pass. */
export class RequestCounter {
  count = 0;
  readonly #server: Server;

  private constructor(target: number) {
    this.#server = createServer((asked, answer) => {
      this.count++;
      const { method, url: path, headers } = asked;
      const passed = request({ host: "127.0.0.1", port: target, method, path, headers }, (answered) => {
        answer.writeHead(answered.statusCode ?? 500, answered.headers);
        answered.pipe(answer);
      });
      passed.on("error", () => answer.destroy());
      asked.pipe(passed);
    });
  }

  /** @param target port of the server. */
  static async start(target: number): Promise<RequestCounter> {
    const counter = new RequestCounter(target);
    counter.#server.listen(0, "127.0.0.1");
    await once(counter.#server, "listening");
    return counter;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** How many requests the work takes. No other requests may be under way. */
  async of(work: () => Promise<unknown>): Promise<number> {
    const before = this.count;
    await work();
    return this.count - before;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
