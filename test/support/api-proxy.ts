import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Kubernetes } from "./kubernetes.ts";

/** A request that is held up on its way. */
interface Held {
  readonly matches: (method: string, path: string) => boolean;
  readonly where: "before" | "after";
  readonly arrive: () => void;
  readonly go: Promise<void>;
}

/** Stands between clients and an API server: sees each request, and holds one up before it reaches the server, or with its answer. */
export class ApiProxy {
  /** Each request, as METHOD NAME; a list and a creation are without a name. */
  readonly asked: string[] = [];
  readonly #server: Server;
  readonly #agent: Agent;
  readonly #target: Kubernetes;
  #held: Held[] = [];

  private constructor(server: Server, target: Kubernetes) {
    this.#server = server;
    this.#target = target;
    this.#agent = new Agent({ keepAlive: true, ca: readFileSync(target.certificates.authority) });
    server.on("request", (asked: IncomingMessage, answer: ServerResponse) => {
      this.#pass(asked, answer).catch(() => answer.destroy());
    });
  }

  static async start(target: Kubernetes): Promise<ApiProxy> {
    const { certificate, key } = target.certificates;
    const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new ApiProxy(server, target);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Holds up the next request that matches. `arrived` resolves when the proxy has it; `go` lets it go on.
   * @param asked METHOD NAME, as in `asked`.
   */
  hold(asked: string, where: Held["where"] = "before"): { readonly arrived: Promise<void>; readonly go: () => void } {
    let arrive = (): void => undefined;
    let go = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const released = new Promise<void>((resolve) => (go = resolve));
    const matches = (method: string, path: string): boolean => `${method} ${nameIn(path)}`.trim() === asked;
    this.#held.push({ matches, where, arrive, go: released });
    return { arrived, go };
  }

  async stop(): Promise<void> {
    this.#agent.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #pass(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { method = "GET", url = "/", headers } = asked;
    this.asked.push(`${method} ${nameIn(url)}`.trim());
    const held = this.#held.find(({ matches }) => matches(method, url));
    this.#held = this.#held.filter((each) => each !== held);
    const chunks: Buffer[] = [];
    for await (const chunk of asked) chunks.push(chunk as Buffer);
    if (held?.where === "before") await wait(held);
    const passed = request({
      host: "127.0.0.1",
      port: this.#target.port,
      agent: this.#agent,
      method,
      path: url,
      headers,
    });
    passed.end(Buffer.concat(chunks));
    const [response] = (await once(passed, "response")) as [IncomingMessage];
    const body: Buffer[] = [];
    for await (const chunk of response) body.push(chunk as Buffer);
    if (held?.where === "after") await wait(held);
    const { "transfer-encoding": _, ...kept } = response.headers;
    answer.writeHead(response.statusCode ?? 500, kept);
    answer.end(Buffer.concat(body));
  }
}

function nameIn(path: string): string {
  return /\/leases\/([^?]*)/.exec(path)?.[1] ?? "";
}

async function wait({ arrive, go }: Held): Promise<void> {
  arrive();
  await go;
}
