import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Kubernetes } from "./kubernetes.ts";

/** A request that the proxy holds up. */
interface Held {
  readonly matches: (method: string, path: string) => boolean;
  readonly where: "before" | "after";
  readonly arrive: () => void;
  readonly go: Promise<"on" | "lost">;
}

/** How a test goes on with a held request. */
interface Hold {
  /** Resolves when the request has arrived. */
  readonly arrived: Promise<void>;
  /** Lets the request go on. */
  readonly go: () => void;
  /** Breaks the client's connection instead. */
  readonly lose: () => void;
}

/**
 * Stands between clients and an API server. It sees each request, and can hold one up before the server gets it, or hold up its answer.
 */
export class ApiProxy {
  /** Each request, as METHOD NAME. A list and a creation have no name. */
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
   * Holds up the next request that matches.
   * @param asked METHOD NAME, as in `asked`, or a pattern for it.
   */
  hold(asked: string | RegExp, where: Held["where"] = "before"): Hold {
    let arrive = (): void => undefined;
    let end = (_: "on" | "lost"): void => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const go = new Promise<"on" | "lost">((resolve) => (end = resolve));
    const matches = (method: string, path: string): boolean => {
      const seen = `${method} ${nameIn(path)}`.trim();
      return typeof asked === "string" ? seen === asked : asked.test(seen);
    };
    this.#held.push({ matches, where, arrive, go });
    return { arrived, go: () => end("on"), lose: () => end("lost") };
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
    if (held?.where === "before" && (await wait(held)) === "lost") return void answer.destroy();
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
    if (held?.where === "after" && (await wait(held)) === "lost") return void answer.destroy();
    const { "transfer-encoding": _, ...kept } = response.headers;
    answer.writeHead(response.statusCode ?? 500, kept);
    answer.end(Buffer.concat(body));
  }
}

function nameIn(path: string): string {
  return /\/leases\/([^?]*)/.exec(path)?.[1] ?? "";
}

function wait({ arrive, go }: Held): Held["go"] {
  arrive();
  return go;
}
