import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { maxBody } from "../api/fields.ts";
import type { AnswerParts } from "./problem.ts";
import type { ApiRequest } from "./request.ts";
import type { Route } from "./routes/route.ts";
import type { Visit } from "./visit.ts";

/*
 * To make a Request from Node's objects and to take a Response apart costs as much as the rest of a short answer. This file serves
 * the same routes on Node's own objects. It takes plain requests only. If Node and a Request could read a request differently (a
 * repeated header, an escape in the path, a body of unknown length, an odd Host), hono answers it.
 */

/** A plain request, and the route that answers it. */
export interface DirectRequest extends Pick<Visit, "param"> {
  readonly route: Route;
  readonly request: ApiRequest;
}

const plainPath = /^\/[\w/-]+$/;
const plainHost = /^(?:[\w.-]+|\[[\da-f:]+\])(?::[1-5]?\d{1,4})?$/i;

/** Finds the route of a plain request among the routes with a JSON body. Undefined if the request is not plain, or no route fits. */
export function directRoutes(routes: readonly Route[]): (message: IncomingMessage) => DirectRequest | undefined {
  const patterns = routes
    .filter(({ body }) => body !== undefined)
    .map((route) => ({ route, path: new RegExp(`^${route.path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`) }));
  return (message) => {
    const { method, url = "" } = message;
    if (!plainPath.test(url) || !isPlain(message)) return undefined;
    for (const { route, path } of patterns) {
      if (route.method !== method) continue;
      const found = path.exec(url);
      if (found !== null) return { route, request: plainRequest(message), param: (name) => found.groups?.[name] };
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

/** Sends the answer of a route with a JSON body. The answer is a text, or empty. */
export function send(response: ServerResponse, { status, headers, body }: AnswerParts): void {
  if (typeof body !== "string") return void response.writeHead(status, headers).end();
  const length = Buffer.byteLength(body);
  // Node takes a list of headers ten times as fast as a new object.
  const lines: (string | number)[] = ["content-length", length];
  for (const name in headers) lines.push(name, headers[name] as string);
  // Most answers are ASCII, which Node writes faster as latin1.
  response.writeHead(status, lines as string[]).end(body, length === body.length ? "latin1" : "utf8");
}

function plainRequest(message: IncomingMessage): ApiRequest {
  const { socket, headers, method = "", url = "" } = message;
  return {
    method,
    url: `${socket instanceof TLSSocket ? "https" : "http"}://${headers.host}${url}`,
    headers: {
      get(name) {
        const value = headers[name];
        return typeof value === "string" ? value : null;
      },
    },
    body: null,
    arrayBuffer: () => bodyOf(message),
  };
}

/** The whole body. Node's parser ensures that it is not longer than its content-length. */
function bodyOf(message: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    // Wait for the end, not for the last byte. Otherwise bytes after the body would count as bytes after the answer.
    message.on("end", () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    message.on("error", reject);
  });
}
