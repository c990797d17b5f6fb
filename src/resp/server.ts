import { createServer, type Server, type Socket } from "node:net";
import { createServer as createSecureServer, Server as SecureServer } from "node:tls";
import { type Certificates, serverTls } from "../serving/certificates.ts";
import { keyOf } from "../serving/connections.ts";
import { type ServerLimits, usualLimits } from "../serving/server-limits.ts";
import { RespConnection, type ServerContext } from "./connection.ts";

interface RespServerOptions extends Omit<ServerContext, "idleTimeout"> {
  readonly limits?: Partial<ServerLimits> | undefined;
  /** Default: no TLS. */
  readonly certificates?: Certificates | undefined;
}

/** How often the server looks for connections that stand still, ms. */
const sweep = 1000;
/** Silence after which TCP checks that the client still exists, ms. */
const keepAlive = 300_000;

/** A server of the Redis protocol. */
export class RespServer {
  /** Does not listen yet. */
  readonly server: Server;
  readonly #open = new Set<RespConnection>();
  /** Address and port of a client -> its connection, while its TLS handshake is not done. */
  readonly #handshakes = new Map<string, Socket>();
  #isDraining = false;

  constructor({ limits: given, certificates, ...context }: RespServerOptions) {
    const { handshakeTimeout, headersTimeout, requestTimeout, idleTimeout } = { ...usualLimits, ...given };
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAlive };
    this.server =
      certificates === undefined
        ? createServer(options)
        : createSecureServer({ ...options, ...serverTls(certificates), handshakeTimeout });
    // This comes first, so that it marks a connection without room before others see it.
    context.connections.watch(this.server);
    const shared = { ...context, idleTimeout };
    if (certificates === undefined) this.server.on("connection", (socket: Socket) => this.#serve(socket, shared));
    else this.#serveSecurely(shared);
    const limits = { request: requestTimeout, token: headersTimeout };
    const sweeper = setInterval(
      () => {
        const now = performance.now();
        for (const connection of this.#open) if (connection.isLate(now, limits)) connection.destroy();
      },
      Math.min(sweep, requestTimeout / 2, headersTimeout / 2),
    ).unref();
    this.server.once("close", () => clearInterval(sweeper));
  }

  /** Checks the tokens of all connections again. */
  review(): void {
    for (const connection of this.#open) connection.review();
  }

  /** New connections get these certificates. */
  renewCertificates(certificates: Certificates): void {
    if (this.server instanceof SecureServer) this.server.setSecureContext(serverTls(certificates));
  }

  /**
   * Accepts no more connections, answers the requests that were read, then ends the rest.
   * @param timeout how long the answers may take, ms. @param hurry ends the rest at once.
   */
  async drain(timeout: number, hurry: AbortSignal): Promise<void> {
    if (!this.server.listening) return;
    this.#isDraining = true;
    for (const socket of this.#handshakes.values()) socket.destroy();
    const end = (): void => {
      for (const connection of this.#open) connection.destroy();
    };
    const timer = setTimeout(end, timeout);
    hurry.addEventListener("abort", end, { once: true });
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const connection of this.#open) connection.drain();
    if (hurry.aborted) end();
    await closed;
    clearTimeout(timer);
    hurry.removeEventListener("abort", end);
  }

  /** Ends the server and all connections at once. */
  destroy(): void {
    this.server.close();
    for (const open of [...this.#open, ...this.#handshakes.values()]) open.destroy();
  }

  #serveSecurely(context: ServerContext): void {
    this.server.on("connection", (socket: Socket) => {
      const key = keyOf(socket);
      this.#handshakes.set(key, socket);
      socket.once("close", () => this.#handshakes.get(key) === socket && this.#handshakes.delete(key));
      if (this.#isDraining) socket.destroy();
    });
    this.server.on("secureConnection", (socket: Socket) => {
      this.#handshakes.delete(keyOf(socket));
      this.#serve(socket, context);
    });
    // Otherwise the connection would stay open when its handshake fails or takes too long.
    this.server.on("tlsClientError", (_, socket) => socket.destroy());
  }

  #serve(socket: Socket, context: ServerContext): void {
    if (socket.destroyed) return;
    if (this.#isDraining) return void socket.destroy();
    const connection = new RespConnection(socket, context);
    this.#open.add(connection);
    socket.once("close", () => this.#open.delete(connection));
  }
}
