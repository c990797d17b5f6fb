import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { configInvalid, type ErrorCode } from "../id/errors.ts";
import type { Connections } from "../serving/connections.ts";
import { isOperators, tellable } from "../serving/failure.ts";
import type { Log } from "../serving/log.ts";
import { commandOf } from "./commands.ts";
import { ProtocolError, RequestParser } from "./parser.ts";
import { failure, refusal } from "./replies.ts";
import { mostAtOnce, PartialAnswer, type RespCode, type RespContext, RespError, Session } from "./session.ts";

/** Shared by the connections of a server. */
export interface ServerContext extends RespContext {
  readonly connections: Connections;
  readonly log: Log;
  /** Counts requests that get an error as their answer. */
  readonly onFailed: (code: ErrorCode, count: number) => void;
  /** How long an answer may stand still because the client takes nothing of it, ms. */
  readonly idleTimeout: number;
}

/** Bytes of answers that are sent together. While this many bytes wait for the client, no further request is answered. */
const mostUnsent = 16 * 1024;
/** Bytes of requests that may wait while another is answered. Above this, the connection is not read. */
const mostUnread = 16 * 1024;
/** For how long one connection is answered before others get their turn, ms. It is checked after every `answersATime` answers. */
const longestTurn = 5;
const answersATime = 16;
const codes: Readonly<Record<RespCode, ErrorCode>> = {
  ERR: "CONFIG_INVALID",
  NOPROTO: "CONFIG_INVALID",
  NOAUTH: "UNAUTHORIZED",
  WRONGPASS: "UNAUTHORIZED",
  NOPERM: "FORBIDDEN",
};

/** Answers the requests of a connection one after the other. */
export class RespConnection {
  readonly #session: Session;
  readonly #socket: Socket;
  readonly #context: ServerContext;
  readonly #parser = new RequestParser();
  /** Answers that are not sent yet. */
  #unsent = "";
  /** Whether a request waits for its answer. */
  #waits = false;
  /** Whether the client has yet to take answers that were sent. */
  #isFull = false;
  /** Whether the connection is ending, so that no more requests are answered. */
  #isEnding = false;
  /** Whether the connection ends after the answers to all requests that were read. */
  #drains = false;
  /** Functions to call once the answers so far are sent. */
  readonly #sent: (() => void)[] = [];
  /** The text of the last GET, and its namespace. Most clients repeat it. */
  #lastGet = "";
  #lastNamespace = "";
  /** Number of whole requests, and that number at the last call of `isLate`. */
  #whole = 0;
  #wholeSeen = 0;
  /** Time since which the present request is incomplete. Undefined: none is. */
  #partialSince: number | undefined;
  /** Time since which the connection waits for a token. Undefined: it has one, or needs none. */
  #unknownSince: number | undefined;

  constructor(socket: Socket, context: ServerContext) {
    this.#socket = socket;
    this.#context = context;
    const address = socket.remoteAddress;
    this.#session = new Session(context, {
      address,
      checkWanted: () => this.#checkWanted(),
      present: async () => {
        // Node reads a connection once in each turn of the event loop. So it reads a connection's end at least one turn after the request.
        await turn();
        await turn();
        this.#checkWanted();
      },
      onceSent: (free) => void this.#sent.push(free),
      onKnown: () => {
        // The client may send its token and RESET between two calls of `isLate`.
        this.#unknownSince = undefined;
        context.connections.know(socket);
      },
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk.toString("latin1")));
    socket.on("drain", () => this.#drained());
    socket.on("close", () => this.#free());
    socket.on("timeout", () => this.destroy());
    socket.on("error", () => undefined);
    if (!context.connections.use(socket, this))
      this.#end(failure("ERR", "Expected fewer connections; close idle ones."));
  }

  /** Whether the connection is idle. Without a token it always counts as idle, so that it can be ended to make room. */
  get writableFinished(): boolean {
    if (!this.#session.isKnown) return true;
    return !this.#waits && !this.#parser.isPartial && this.#socket.writableLength === 0;
  }

  /** Ends the connection after the answers to all requests that were read. */
  drain(): void {
    this.#drains = true;
    this.#socket.pause();
    this.#proceed();
  }

  /** Checks the token again, and ends the connection if its token is gone. */
  review(): void {
    this.#lastGet = "";
    if (!this.#session.review()) this.destroy();
  }

  destroy(): void {
    this.#isEnding = true;
    this.#socket.destroy();
  }

  /** Whether a request or a token took too long. The server calls it regularly. @param now ms. */
  isLate(now: number, { request, token }: ArrivalLimits): boolean {
    const isPartial = !this.#waits && !this.#isFull && this.#parser.isPartial;
    if (this.#whole !== this.#wholeSeen) this.#partialSince = undefined;
    this.#wholeSeen = this.#whole;
    this.#partialSince = isPartial ? (this.#partialSince ?? now) : undefined;
    this.#unknownSince = this.#session.isKnown ? undefined : (this.#unknownSince ?? now);
    if (this.#unknownSince !== undefined && now - this.#unknownSince > token) return true;
    return this.#partialSince !== undefined && now - this.#partialSince > request;
  }

  #read(text: string): void {
    if (this.#isEnding) return;
    this.#context.connections.use(this.#socket, this);
    this.#parser.push(text);
    if (this.#waits || this.#isFull) {
      if (this.#parser.unread > mostUnread) this.#socket.pause();
      return;
    }
    this.#proceed();
  }

  /** Answers the requests that were read, as far as that is possible now. */
  #proceed(): void {
    let begin: number | undefined;
    for (let count = 1; !this.#waits && !this.#isFull && !this.#isEnding; count++) {
      const answer = this.#answerNext();
      if (answer === undefined) break;
      this.#whole++;
      if (typeof answer === "string") this.#unsent += answer;
      else this.#await(answer);
      if (this.#unsent.length >= mostUnsent) this.#flush();
      if (count % answersATime > 0 || this.#waits) continue;
      const now = performance.now();
      begin ??= now;
      if (now - begin > longestTurn) this.#await(turn(""));
    }
    this.#flush();
    if (this.#drains && !this.#waits && !this.#isFull && !this.#isEnding) this.#end("");
  }

  /** Answers the next request, and the equal requests after it. Undefined: the next request is incomplete. */
  #answerNext(): string | Promise<string> | undefined {
    if (this.#lastGet !== "") {
      const count = this.#parser.skip(this.#lastGet, mostAtOnce);
      if (count > 0) return this.#answerIds(count);
    }
    try {
      const request = this.#parser.next();
      if (request === undefined) return undefined;
      const command = commandOf(this.#session, request);
      const [name = "", ...args] = request;
      const isGet = command.key === 1 && name.length === 3;
      if (command.open === true) this.#lastGet = "";
      else if (isGet) {
        // `admit` throws for a refused request, and the earlier GET stays.
        this.#lastNamespace = this.#session.admit(args[0] ?? "");
        this.#lastGet = this.#parser.lastText ?? "";
      }
      if (command.ends !== true) return command.run(this.#session, args);
      this.#end("+OK\r\n");
      return "";
    } catch (error) {
      if (!(error instanceof ProtocolError)) return this.#failed(error);
      this.#end(failure("ERR", `Protocol error: ${error.message}`));
      return "";
    }
  }

  #answerIds(count: number): string | Promise<string> {
    try {
      return this.#session.answerIds(this.#lastNamespace, count);
    } catch (error) {
      return this.#failed(error, count);
    }
  }

  #await(answer: Promise<string>): void {
    this.#waits = true;
    const go = (text: string): void => {
      this.#waits = false;
      this.#unsent += text;
      this.#flush();
      if (!this.#drains && !this.#isFull) this.#socket.resume();
      this.#proceed();
    };
    // Earlier answers need not wait for this one.
    this.#flush();
    answer.then(go, (error: unknown) => {
      if (!(error instanceof PartialAnswer)) return go(this.#failed(error));
      go(error.answered + this.#failed(error.cause, error.missing));
    });
  }

  #flush(): void {
    if (this.#unsent !== "") {
      const text = this.#unsent;
      this.#unsent = "";
      // A connection that has ended takes no bytes, and never emits `drain`.
      if (this.#socket.destroyed) this.#isEnding = true;
      else if (!this.#socket.write(text, "latin1") && this.#socket.writableLength >= mostUnsent) {
        this.#isFull = true;
        this.#socket.setTimeout(this.#context.idleTimeout);
        this.#socket.pause();
        return;
      }
    }
    if (!this.#isFull && !this.#waits && this.#sent.length > 0) this.#free();
  }

  #drained(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.#socket.setTimeout(0);
    if (!this.#waits) this.#free();
    if (!this.#drains) this.#socket.resume();
    this.#proceed();
  }

  #free(): void {
    for (const free of this.#sent.splice(0)) free();
  }

  /** Sends the last answers, and hangs up. */
  #end(last: string): void {
    this.#isEnding = true;
    this.#socket.pause();
    this.#socket.setTimeout(this.#context.idleTimeout);
    this.#socket.write(this.#unsent + last, "latin1");
    this.#unsent = "";
    this.#socket.destroySoon();
  }

  #checkWanted(): void {
    if (!this.#socket.destroyed && !this.#socket.readableEnded) return;
    throw configInvalid("Expected the client to wait for the answer; it hung up.");
  }

  /** The answers to requests that failed with the same error. */
  #failed(cause: unknown, count: number = 1): string {
    const { onFailed, log } = this.#context;
    if (cause instanceof RespError) {
      onFailed(codes[cause.code], count);
      return cause.reply.repeat(count);
    }
    const error = tellable(cause);
    onFailed(error.code, count);
    if (isOperators(error)) log.error({ err: cause }, error.message);
    return refusal(error).repeat(count);
  }
}

/** How long a client may take to send a request or a token, ms. */
interface ArrivalLimits {
  /** A whole request. */
  readonly request: number;
  readonly token: number;
}
