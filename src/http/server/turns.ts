import { IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests of one connection that may wait behind the answer under way; each is some 3 KiB of objects. */
const mostWaiting = 100;

/**
 * Serves the requests of a connection one by one: the next begins when the kernel has taken the whole answer before it. (Node
 * itself starts all that it has read, and keeps the answers that the client does not read.) A connection that sends more requests
 * ahead than may wait is for the server's `connect` to end.
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

  /** Whether as many requests of a connection wait as may. */
  isAhead(socket: Socket): boolean {
    return (this.#waiting.get(socket) ?? 0) >= mostWaiting;
  }

  /** What serves each request when its turn comes. */
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

/** The newest response of each connection, to a request that may still be coming in. */
export type NewestResponses = WeakMap<Duplex, ServerResponse>;

/** Notes them for a server from now on. */
export function newestResponses(server: Server): NewestResponses {
  const newest: NewestResponses = new WeakMap();
  const note = ({ socket }: IncomingMessage, response: ServerResponse): void => void newest.set(socket, response);
  server.on("request", note);
  server.on("checkExpectation", note);
  return newest;
}

/**
 * Has Node make no objects of what stands behind this request. Node reads 64 KiB at a time, which may be 2,400 requests, and looks
 * at nothing between two of them but whether the connection becomes a tunnel.
 */
function stopReading(request: IncomingMessage): void {
  Object.defineProperties(request, {
    method: { get: () => "CONNECT", set() {} },
    upgrade: { get: () => true, set() {} },
  });
}
