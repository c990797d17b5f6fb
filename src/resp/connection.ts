import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { type ErrorCode, SnowleaseError } from "../id/errors.ts";
import type { Connections } from "../serving/connections.ts";
import type { Log } from "../serving/log.ts";
import { commandOf } from "./commands.ts";
import { copied, longestRequest, ProtocolError, RequestParser } from "./parser.ts";
import { failure, refusal } from "./replies.ts";
import { mostAtOnce, PartialAnswer, type RespCode, type RespContext, RespError, Session } from "./session.ts";

/** What a server's connections share. */
export interface ServerContext extends RespContext {
  readonly connections: Connections;
  readonly log: Log;
  /** Counts a request that is answered with an error. */
  readonly onFailed: (code: ErrorCode) => void;
}

/** Answers that are sent together, bytes. While the client does not take as much, nothing more of its requests is answered. */
const mostUnsent = 64 * 1024;
/** Requests that may wait behind the one under way, bytes: with more, no more is read. */
const mostUnread: number = longestRequest;
const codes: Readonly<Record<RespCode, ErrorCode>> = {
  ERR: "CONFIG_INVALID",
  NOPROTO: "CONFIG_INVALID",
  NOAUTH: "UNAUTHORIZED",
  WRONGPASS: "UNAUTHORIZED",
  NOPERM: "FORBIDDEN",
};

/** Answers the requests of a connection one after the other. */
export class RespConnection {
  readonly session: Session;
  readonly #socket: Socket;
  readonly #context: ServerContext;
  readonly #parser = new RequestParser();
  /** Answers that are not sent yet. */
  #unsent = "";
  /** A request waits for its answer. */
  #waits = false;
  /** The client has not taken what was sent. */
  #isFull = false;
  /** No more requests are answered. */
  #isEnding = false;
  /** Ends once all that was read is answered. */
  #drains = false;
  /** Called once the answers so far are sent. */
  readonly #sent: (() => void)[] = [];
  /** The GET that came last, as it came, and its namespace: most clients repeat it. */
  #lastGet = "";
  #lastNamespace = "";
  /** Counts up with all that is read or sent. */
  #progress = 0;
  /** The progress that `stands` saw last, and since when. */
  #seen = 0;
  #seenAt = 0;
  /** Since when there is a request that is not whole; undefined: there is none. */
  #partialSince: number | undefined;
  /** Since when a token is awaited; undefined: it was shown, or there is none to show. */
  #unknownSince: number | undefined;

  constructor(socket: Socket, context: ServerContext) {
    this.#socket = socket;
    this.#context = context;
    const address = socket.remoteAddress;
    this.session = new Session(context, {
      address,
      checkWanted: () => this.#checkWanted(),
      present: async () => {
        // Node reads a connection once a turn: the request in one, its end at the earliest in the next.
        await turn();
        await turn();
        this.#checkWanted();
      },
      onceSent: (free) => void this.#sent.push(free),
      onKnown: () => {
        // It may show its token and send RESET between two looks.
        this.#unknownSince = undefined;
        context.connections.know(socket);
      },
    });
    socket.on("data", (chunk: Buffer) => this.#read(chunk.toString("latin1")));
    socket.on("drain", () => this.#drained());
    socket.on("close", () => this.#free());
    socket.on("error", () => undefined);
    if (!context.connections.use(socket, this))
      this.#end(failure("ERR", "Expected fewer connections; close idle ones."));
  }

  /** Whether it is idle. */
  get writableFinished(): boolean {
    return !this.#waits && !this.#isFull && !this.#parser.isPartial;
  }

  /** Ends it once what was read is answered. */
  drain(): void {
    this.#drains = true;
    this.#socket.pause();
    this.#proceed();
  }

  /** Looks at the tokens again; ends it where its token is gone. */
  review(): void {
    this.#lastGet = "";
    if (!this.session.review()) this.destroy();
  }

  destroy(): void {
    this.#isEnding = true;
    this.#socket.destroy();
  }

  /** Whether a request or an answer has stood still, or a token was awaited, for too long. Asked once in a while. @param now ms. */
  stands(now: number, { request, idle, token }: StandLimits): boolean {
    if (this.#progress !== this.#seen) [this.#seen, this.#seenAt] = [this.#progress, now];
    this.#partialSince =
      !this.#waits && !this.#isFull && this.#parser.isPartial ? (this.#partialSince ?? now) : undefined;
    this.#unknownSince = this.session.isKnown ? undefined : (this.#unknownSince ?? now);
    if (this.#unknownSince !== undefined && now - this.#unknownSince > token) return true;
    if (this.#partialSince !== undefined && now - this.#partialSince > request) return true;
    return (this.#isFull || this.#isEnding) && now - this.#seenAt > idle;
  }

  #read(text: string): void {
    if (this.#isEnding) return;
    this.#progress++;
    this.#context.connections.use(this.#socket, this);
    this.#parser.push(text);
    if (this.#waits || this.#isFull) {
      if (this.#parser.unread > mostUnread) this.#socket.pause();
      return;
    }
    this.#proceed();
  }

  /** Answers what was read, as far as that is possible now. */
  #proceed(): void {
    while (!this.#waits && !this.#isFull && !this.#isEnding) {
      const answer = this.#answerNext();
      if (answer === undefined) break;
      if (typeof answer === "string") this.#unsent += answer;
      else this.#await(answer);
      if (this.#unsent.length >= mostUnsent) this.#flush();
    }
    this.#flush();
    if (this.#drains && !this.#waits && !this.#isFull && !this.#isEnding) this.#end("");
  }

  /** Answers the next request, and those behind it that ask the same; undefined: none is whole. */
  #answerNext(): string | Promise<string> | undefined {
    if (this.#lastGet !== "") {
      const count = this.#parser.skip(this.#lastGet, mostAtOnce);
      if (count > 0) return this.#answerIds(count);
    }
    try {
      const request = this.#parser.next();
      if (request === undefined) return undefined;
      const command = commandOf(this.session, request);
      const [name = "", ...args] = request;
      const isGet = command.key === 1 && name.length === 3;
      if (isGet) {
        this.#lastNamespace = copied(args[0] ?? "");
        this.session.admit(this.#lastNamespace);
        this.#lastGet = this.#parser.lastText ?? "";
      } else if (command.open === true) this.#lastGet = "";
      if (command.ends !== true) return command.run(this.session, args);
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
      return this.session.answerIds(this.#lastNamespace, count);
    } catch (error) {
      return this.#failed(error).repeat(count);
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
    // The answers before it need not wait.
    this.#flush();
    answer.then(go, (error: unknown) => {
      if (!(error instanceof PartialAnswer)) return go(this.#failed(error));
      go(error.answered + this.#failed(error.cause).repeat(error.missing));
    });
  }

  #flush(): void {
    if (this.#unsent !== "") {
      const text = this.#unsent;
      this.#unsent = "";
      this.#progress++;
      // A connection that has ended takes nothing, and never drains.
      if (this.#socket.destroyed) this.#isEnding = true;
      else if (!this.#socket.write(text, "latin1") && this.#socket.writableLength >= mostUnsent) {
        this.#isFull = true;
        this.#socket.pause();
        return;
      }
    }
    if (!this.#isFull && !this.#waits && this.#sent.length > 0) this.#free();
  }

  #drained(): void {
    this.#progress++;
    if (!this.#isFull) return;
    this.#isFull = false;
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
    this.#socket.write(this.#unsent + last, "latin1");
    this.#unsent = "";
    this.#socket.destroySoon();
  }

  #checkWanted(): void {
    if (!this.#socket.destroyed && !this.#socket.readableEnded) return;
    throw new SnowleaseError("CONFIG_INVALID", "Expected the client to wait for the answer; it hung up.");
  }

  /** The answer to a request that failed. */
  #failed(cause: unknown): string {
    if (cause instanceof RespError) {
      this.#context.onFailed(codes[cause.code]);
      return cause.reply;
    }
    const what = "The daemon failed on this request; its log says why.";
    const error =
      cause instanceof SnowleaseError ? cause : new SnowleaseError("REGISTRY_UNAVAILABLE", what, {}, { cause });
    this.#context.onFailed(error.code);
    // What clients do wrong is theirs to see; what the registry or this daemon does wrong is the operator's.
    if (
      error.code === "REGISTRY_UNAVAILABLE" ||
      error.code === "SCHEMA_INCOMPATIBLE" ||
      error.code === "DRIVER_MISSING"
    ) {
      this.#context.log.error({ err: cause }, error.message);
    }
    return refusal(error);
  }
}

/** How long each may take, ms. */
interface StandLimits {
  /** For a request to come whole. */
  readonly request: number;
  /** For the client to take a part of its answers. */
  readonly idle: number;
  /** Until the client shows a token. */
  readonly token: number;
}
