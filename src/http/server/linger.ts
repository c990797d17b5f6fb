import type { Server } from "node:http";
import { Server as SecureServer } from "node:https";
import { Socket } from "node:net";
import type { NewestResponses } from "./turns.ts";

/** How long a connection is read behind its last answer, ms. */
const longest = 1000;

/**
 * Has a connection close once its last request is read, which a client may still be sending. The kernel resets a connection that is closed
 * with unread bytes, and forgets the end of the answer that the client has yet to take.
 */
export function lingerAtClose(server: Server, newest: NewestResponses): void {
  server.on(server instanceof SecureServer ? "secureConnection" : "connection", (socket: Socket) => {
    const close = (): void => Socket.prototype.destroySoon.call(socket);
    // Node calls it behind the last answer.
    socket.destroySoon = () => {
      const request = newest.get(socket)?.req;
      if (request === undefined || request.complete || socket.destroyed) return close();
      socket.end();
      const timer = setTimeout(close, longest);
      socket.once("close", () => clearTimeout(timer));
      request.once("end", close).resume();
    };
  });
}
