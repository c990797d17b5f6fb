import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { maxBody } from "../api/requests.ts";
import type { AnswerParts } from "./problem.ts";
import type { ApiRequest } from "./request.ts";
import type { JsonRoute, Route } from "./routes/route.ts";
import type { Visit } from "./visit.ts";

/*
 * To make a Request of what Node has read, and to take a Response apart, costs as much as all the rest of a short answer. Here the same routes are asked and
 * answered on Node's own objects. Only what is plain comes this way: whatever a Request would read otherwise than Node does (a
 * header that came twice, an escape in the path, a body of unknown length, a Host that is odd) is left to that.
 */

/** A request that one of the routes takes as it is. */
export interface DirectRequest extends Pick<Visit, "param"> {
  readonly route: JsonRoute;
  readonly request: ApiRequest;
}

const plainPath = /^\/[\w/-]+$/;
const plainHost = /^(?:[\w.-]+|\[[\da-f:]+\])(?::[1-5]?\d{1,4})?$/i;

/** Finds the route of a plain request, among those that take JSON and answer with it; undefined: it is not plain, or for none of them. */
export function directRoutes(routes: readonly Route[]): (message: IncomingMessage) => DirectRequest | undefined {
  const patterns = routes.flatMap((route) => {
    if (!("run" in route) || route.body === undefined) return [];
    return [{ route, path: new RegExp(`^${route.path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`) }];
  });
  return (message) => {
    const { method, url = "" } = message;
    if (!plainPath.test(url) || !isPlain(message)) return undefined;
    for (const { route, path } of patterns) {
      if (route.method !== method) continue;
      const found = path.exec(url);
      if (found !== null) return { route, request: new NodeRequest(message), param: (name) => found.groups?.[name] };
    }
    return undefined;
  };
}

function isPlain({ headers, rawHeaders }: IncomingMessage): boolean {
  const { host = "", "transfer-encoding": encoding, "content-length": length = "0" } = headers;
  if (!plainHost.test(host) || encoding !== undefined || Number(length) > maxBody) return false;
  let names = 0;
  for (const _ in headers) names++;
  return 2 * names === rawHeaders.length;
}

/** Sends an answer. */
export function send(response: ServerResponse, { status, headers, body }: AnswerParts): void {
  if (status === 204) return void response.writeHead(status, headers).end();
  const length = Buffer.byteLength(body);
  // A list: an object that is made for each answer takes Node ten times as long.
  const lines: (string | number)[] = ["content-length", length];
  for (const name in headers) lines.push(name, headers[name] as string);
  // What is ASCII, as most of it is, costs less when Node is told so.
  response.writeHead(status, lines as string[]).end(body, length === body.length ? "latin1" : "utf8");
}

/** A plain request. */
class NodeRequest implements ApiRequest {
  readonly #message: IncomingMessage;
  readonly headers: ApiRequest["headers"];
  readonly body = null;

  constructor(message: IncomingMessage) {
    this.#message = message;
    this.headers = {
      get(name) {
        const value = message.headers[name];
        return typeof value === "string" ? value : null;
      },
    };
  }

  get method(): string {
    return this.#message.method ?? "";
  }

  get url(): string {
    const { socket, headers, url } = this.#message;
    return `${socket instanceof TLSSocket ? "https" : "http"}://${headers.host}${url}`;
  }

  /** No more than was announced: Node's parser sees to that. */
  arrayBuffer(): Promise<Uint8Array> {
    const message = this.#message;
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      message.on("data", (chunk: Buffer) => chunks.push(chunk));
      // Not with its last byte: what comes behind the body would then be taken for what comes behind the answer.
      message.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
      message.on("error", reject);
    });
  }
}
