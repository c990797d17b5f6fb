import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer, Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import type { App } from "../app.ts";
import { type Certificates, serverTls } from "../../serving/certificates.ts";
import { Connections, usualConnections } from "../../serving/connections.ts";
import { silent } from "../../serving/log.ts";
import { type ServerLimits, usualLimits } from "../../serving/server-limits.ts";
import { HttpRefusal, problemParts, responseOf } from "../problem.ts";
import { RequestTurns } from "./turns.ts";
import { maxHeaderSize, refuseUnparsed, refuseUnread } from "./unparsed.ts";

/** How often a drain closes connections that have become idle, ms. */
const sweep = 20;

const health = /^\/(?:healthz|readyz|metrics)(?:\?|$)/;

interface ServerOptions {
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Counts and limits the connections. Default: the usual limit. */
  readonly connections?: Connections;
  readonly certificates?: Certificates | undefined;
}

/** An HTTP server for the app, which does not listen yet. With certificates, an HTTPS server. */
export function makeServer(app: App, { limits, connections, certificates }: ServerOptions = {}): Server {
  const { handshakeTimeout, headersTimeout, requestTimeout, keepAliveTimeout, idleTimeout } = {
    ...usualLimits,
    ...limits,
  };
  const clients = connections ?? new Connections({ most: usualConnections() }, silent);
  const listener = getRequestListener((request, connection) => app.fetch(request, connection as HttpBindings), {
    // Not a request at all: the Host is invalid or missing, or the target is not a URL.
    errorHandler: () =>
      responseOf(
        problemParts(new HttpRefusal(400, "CONFIG_INVALID", "Expected an HTTP request with a valid URL and Host.")),
      ),
  });
  const connectionsCheckingInterval = Math.min(1000, headersTimeout / 2, requestTimeout / 2);
  const timeouts = { headersTimeout, requestTimeout, keepAliveTimeout, connectionsCheckingInterval };
  const turns = new RequestTurns();
  const { IncomingMessage } = turns;
  const options = { ...timeouts, maxHeaderSize, requireHostHeader: false, IncomingMessage };
  const server =
    certificates === undefined
      ? createServer(options)
      : createSecureServer({ ...options, ...serverTls(certificates), handshakeTimeout });
  server.on("connect", ({ socket }: IncomingMessage) => turns.isAhead(socket) && clients.end(socket, "ahead"));
  refuseUnparsed(server, turns);
  const serve = turns.inTurn((request, response) => {
    if (!hasRoom(clients, request, response)) {
      return refuseUnread(response, "Expected fewer connections; close idle ones, or try again later.", 503);
    }
    if (!isFor(request)) {
      return refuseUnread(
        response,
        "Expected the target and the Host header to name the same host; send the path alone.",
      );
    }
    if (!app.answer(request, response)) void listener(request, response);
  });
  server.on("request", serve);
  watchUnused(server);
  clients.watch(server);
  server.setTimeout(idleTimeout);
  return server;
}

/** Whether a request may be served. A connection above the limit may only ask for the daemon's health. */
function hasRoom(clients: Connections, { socket, url = "" }: IncomingMessage, response: ServerResponse): boolean {
  if (clients.use(socket, response)) return true;
  response.shouldKeepAlive = false;
  return health.test(url);
}

/** Whether target and Host name the same host. A request to a proxy names its host in both. */
function isFor({ url = "", headers }: IncomingMessage): boolean {
  if (url.startsWith("/") || !URL.canParse(url)) return true;
  const { protocol, host } = new URL(url);
  const named = `${protocol}//${headers.host}`;
  return URL.canParse(named) && new URL(named).host === host;
}

/** Server -> its connections without a request yet, each with the bytes that it had received when it opened (from a TLS handshake). */
const unused = new WeakMap<Server, Map<Socket, number>>();

function watchUnused(server: Server): void {
  const sockets = new Map<Socket, number>();
  unused.set(server, sockets);
  const watch = (socket: Socket): void => {
    sockets.set(socket, socket.bytesRead);
    socket.once("close", () => sockets.delete(socket));
  };
  server.on("connection", watch);
  server.on("secureConnection", watch);
  server.on("request", ({ socket }: IncomingMessage) => sockets.delete(socket));
}

/** Ends connections that have sent nothing. Node counts them as busy, because their first request may still come. */
function endUnused(server: Server): void {
  for (const [socket, bytes] of unused.get(server) ?? []) if (socket.bytesRead === bytes) socket.destroy();
}

/** New connections get these certificates. Idle connections are closed, so that clients connect again. */
export function renewCertificates(server: Server, certificates: Certificates): void {
  if (!(server instanceof SecureServer)) return;
  server.setSecureContext(serverTls(certificates));
  server.closeIdleConnections();
}

/**
 * Accepts no more connections, lets requests in flight finish, then ends the rest.
 * @param timeout how long requests may take to finish, ms. @param hurry ends the rest at once.
 */
export async function drain(server: Server, timeout: number, hurry: AbortSignal): Promise<void> {
  if (!server.listening) return;
  const end = (): void => server.closeAllConnections();
  const timer = setTimeout(end, timeout);
  endUnused(server);
  // A connection that was busy when the server was closed stays open for another request when it becomes idle.
  const sweeper = setInterval(() => server.closeIdleConnections(), sweep);
  hurry.addEventListener("abort", end, { once: true });
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  if (hurry.aborted) end();
  await closed;
  clearTimeout(timer);
  clearInterval(sweeper);
  hurry.removeEventListener("abort", end);
}
