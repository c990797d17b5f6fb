import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ErrorCode, shown } from "../../id/errors.ts";
import { HttpRefusal, problemParts } from "../problem.ts";
import type { RequestTurns } from "./turns.ts";

/** Largest size of a request's headers, bytes. */
export const maxHeaderSize: number = 16 * 1024;

/** Errors of Node that say what a client did wrong. */
const readErrors: Readonly<Record<string, readonly [status: number, code: ErrorCode, message: string]>> = {
  // Only this request may succeed when it is repeated.
  ERR_HTTP_REQUEST_TIMEOUT: [408, "REGISTRY_UNAVAILABLE", "Expected the whole request sooner; send it again."],
  HPE_HEADER_OVERFLOW: [431, "CONFIG_INVALID", `Expected headers of at most ${maxHeaderSize} bytes; send less.`],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "CONFIG_INVALID", "Expected chunks without long extensions; send none."],
};

/** Node's error for a request that it could not read. */
interface ReadError extends Error {
  readonly code?: string;
  /** From the parser. It quotes nothing that the client sent. */
  readonly reason?: string;
}

/** Sends a problem as in RFC 9457 and hangs up, where Node would answer by itself: the errors of `refusalOf`, CONNECT and Expect. */
export function refuseUnparsed(server: Server, turns: RequestTurns): void {
  const newest = new WeakMap<Duplex, ServerResponse>();

  server.on("request", (request: IncomingMessage, response: ServerResponse) => newest.set(request.socket, response));
  server.on("clientError", (error: ReadError, socket: Duplex) => {
    const refusal = refusalOf(error);
    if (refusal === undefined || !socket.writable) return void socket.destroy();
    const response = newest.get(socket);
    if (awaitsAnswer(response)) hangUp(socket, asText(refusal));
    // The request before the unreadable bytes still gets its answer.
    else if (response?.req.complete === true && !response.headersSent) response.once("finish", () => hangUp(socket));
    else socket.destroy();
  });
  server.on("connect", (request: IncomingMessage, socket: Duplex) => {
    if (socket.destroyed) return;
    // A client that hangs up at once must not end the process.
    socket.on("error", () => undefined);
    const what = `There is no ${shown(`CONNECT ${request.url}`).replace(/ \(string\)$/, "")} here, no tunnel to anywhere; see /openapi.json.`;
    hangUp(socket, asText(new HttpRefusal(405, "NOT_FOUND", what, { headers: { allow: "" } })));
  });
  const refuseExpectation = turns.inTurn((_, response) =>
    refuseUnread(response, "Expected no Expect header but `100-continue`; leave it out.", 417),
  );
  server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
    newest.set(request.socket, response);
    refuseExpectation(request, response);
  });
}

/** Refuses a request before its body is read, and closes the connection, so that nothing after it is read. */
export function refuseUnread(response: ServerResponse, message: string, status = 400): void {
  const { headers, body } = problemParts(new HttpRefusal(status, "CONFIG_INVALID", message));
  response.shouldKeepAlive = false;
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
}

function hangUp(socket: Duplex, text = ""): void {
  socket.write(text);
  (socket as Duplex & { destroySoon(): void }).destroySoon();
}

/** Whether the client would take the next bytes for the answer to the unreadable bytes, not to an earlier request. */
function awaitsAnswer(response: ServerResponse | undefined): boolean {
  if (response === undefined) return true;
  return response.req.complete ? response.writableFinished && response.shouldKeepAlive : !response.headersSent;
}

/** The refusal for an error. Undefined: the connection broke, and no answer would arrive. */
function refusalOf({ code = "", reason }: ReadError): HttpRefusal | undefined {
  const known = readErrors[code];
  if (known !== undefined) return new HttpRefusal(...known);
  if (!code.startsWith("HPE_")) return undefined;
  return new HttpRefusal(400, "CONFIG_INVALID", `Expected a request in HTTP/1.1, got something else: ${reason}.`);
}

function asText(refusal: HttpRefusal): string {
  const { status, headers, body } = problemParts(refusal);
  const all = { ...headers, connection: "close", "content-length": Buffer.byteLength(body) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...lines, "", body].join("\r\n");
}
