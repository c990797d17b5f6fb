import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as send,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** Fields that no version has. */
const unknownFields = { zoneOfRack: "b", receiptOfLease: { era: 1, parts: [{ id: "a" }] }, "": null };

/** A value as a newer version sends it, with unknown fields in each object inside it. */
function grown(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(grown);
  if (typeof value !== "object" || value === null) return value;
  const parts = Object.entries(value).map(([name, part]) => [name, grown(part)]);
  return { ...Object.fromEntries(parts), ...unknownFields };
}

function grownText(json: string): string {
  return json === "" ? json : JSON.stringify(grown(JSON.parse(json)));
}

/** Passes a request on, and its answer back, both as a newer version sends them. */
async function passOn(target: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = grownText(await text(request));
  const sent = send({
    host: target.hostname,
    port: target.port,
    method: request.method,
    path: request.url,
    headers: {
      ...withoutFraming(request.headers),
      "snowlease-zone": "b",
      ...(body !== "" && { "content-length": Buffer.byteLength(body) }),
    },
    agent: false,
  });
  sent.end(body);
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const read = await text(answer);
  const isJson = answer.headers["content-type"]?.includes("json") === true;
  response.writeHead(answer.statusCode ?? 0, { ...withoutFraming(answer.headers), "snowlease-zone": "b", etag: '"x"' });
  response.end(isJson ? grownText(read) : read);
}

function withoutFraming(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const { "content-length": _, "transfer-encoding": __, connection: ___, ...rest } = headers;
  return rest;
}

/** A proxy that makes a daemon and its client each seem newer to the other. It adds fields and headers to requests and answers. */
export async function startNewerDaemon(url: string): Promise<{ readonly url: string; close(): void }> {
  const target = new URL(url);
  const server = createServer((request, response) => {
    passOn(target, request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
