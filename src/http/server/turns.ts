import { IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** How many requests of one connection may wait for the answer in progress. Each is about 3 KiB of objects. */
const mostWaiting = 100;

/**
 * Serves the requests of a connection one by one. The next one begins when the kernel has taken the whole answer before it. (Node
 * itself starts all requests that it has read, and keeps the answers that the client does not read.) The server's `connect`
 * listener ends a connection that sends too many requests ahead.
 */
export class RequestTurns {
  /** The class of the server's requests. */
  readonly IncomingMessage: typeof IncomingMessage;
  readonly #waiting = new WeakMap<Socket, number>();

  constructor() {
    const isAhead = this.isAhead.bind(this);
    this.IncomingMessage = class extends IncomingMessage {
      constructor(socket: Socket) {
        super(socket);
        if (isAhead(socket)) stopReading(this);
      }
    };
  }

  /** Whether the highest permitted number of requests of a connection wait. */
  isAhead(socket: Socket): boolean {
    return (this.#waiting.get(socket) ?? 0) >= mostWaiting;
  }

  /** A handler that serves each request when its turn comes. */
  inTurn(serve: RequestHandler): RequestHandler {
    return (request, response) => {
      // Node gives a response its socket when the one before it is finished.
      if (response.socket !== null) return serve(request, response);
      const { socket } = request;
      this.#waiting.set(socket, (this.#waiting.get(socket) ?? 0) + 1);
      response.once("socket", () => {
        this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1);
        serve(request, response);
      });
    };
  }
}

/**
 * Makes Node stop after this request, so that it makes no objects for the requests after it. Node reads 64 KiB at a time, which may
 * be 2,400 requests. Between two of them it only checks whether the connection becomes a tunnel.
 */
function stopReading(request: IncomingMessage): void {
  Object.defineProperties(request, {
    method: { get: () => "CONNECT", set() {} },
    upgrade: { get: () => true, set() {} },
  });
}
