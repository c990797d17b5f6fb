import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Requests of one connection that may wait behind the answer under way. Node reads 64 KiB at a time and makes some 3 KiB of objects
 * for each request in it, of which there may be 2,400.
 */
const mostWaiting = 200;

/**
 * Serves the requests of a connection one by one: the next begins when the kernel has taken the whole answer before it. (Node
 * itself starts all that it has read, and keeps the answers that the client does not read.) A connection that sends more requests
 * ahead than may wait is for `refused` to end.
 */
export function inTurn(serve: Serve, refused: (socket: Socket) => void): Serve {
  const waiting = new WeakMap<Socket, number>();

  return (request, response) => {
    // Node gives a response its socket when the one before it is finished.
    if (response.socket !== null) return serve(request, response);
    const { socket } = request;
    const count = (waiting.get(socket) ?? 0) + 1;
    waiting.set(socket, count);
    if (count > mostWaiting) {
      if (count === mostWaiting + 1) refused(socket);
      return;
    }
    response.once("socket", () => {
      waiting.set(socket, (waiting.get(socket) ?? 1) - 1);
      serve(request, response);
    });
  };
}
