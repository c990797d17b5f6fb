import { mostIds } from "../api/ids.ts";
import { configInvalid, shown } from "../id/errors.ts";
import { namespacePattern, namespaceRule } from "../id/namespace.ts";
import type { IdMaker } from "../ops/ids.ts";
import type { AnswerMemory } from "../serving/answer-memory.ts";
import type { ClaimRate } from "../serving/claim-rate.ts";
import type { Tokens } from "../serving/tokens.ts";
import { copied } from "./parser.ts";
import { failure, idReplies, idReply, integer, type ProtocolVersion } from "./replies.ts";

/** Shared by the connections of a server. */
export interface RespContext {
  readonly ids: IdMaker;
  /** Default: every client may do everything. */
  readonly tokens?: Tokens | undefined;
  /** How many claims each client may make. Default: any number. */
  readonly claimRate?: ClaimRate | undefined;
  /** The memory for large answers, shared with the other protocols. */
  readonly memory: AnswerMemory;
  /** INCR answers with an integer even if IDs have more than 53 bits. */
  readonly integers: boolean;
  readonly version: string;
}

/** The part of a connection that its session uses. */
interface SessionPeer {
  /** Undefined for a connection over a Unix socket. */
  readonly address: string | undefined;
  /** Throws when the client has hung up, as far as the daemon has heard. */
  checkWanted(): void;
  /** Waits until the daemon has read all connections. Throws when this client has hung up. */
  present(): Promise<void>;
  /** Calls `free` when the next answer is sent, or when the connection has ended. */
  onceSent(free: () => void): void;
  /** Called when the client has sent a valid token. */
  onKnown(): void;
}

export type RespCode = "ERR" | "NOAUTH" | "NOPERM" | "NOPROTO" | "WRONGPASS";

/** An error with a code of Redis, which clients look for. */
export class RespError extends Error {
  readonly code: RespCode;

  constructor(code: RespCode, message: string) {
    super(message);
    this.code = code;
  }

  get reply(): string {
    return failure(this.code, this.message);
  }
}

/** Memory for one ID while an answer is made, bytes: the bigint and its text. */
const bytesOfId = 64;
/** IDs that are made at once without waiting. Answers with more IDs count against the memory for large answers. */
export const mostAtOnce = 1024;
/** One buffer is enough, because no other code runs between writing and reading it. */
const buffer = new BigUint64Array(mostAtOnce);
const one = new BigUint64Array(1);
/** Bits that a JavaScript number holds exactly. */
const exactBits = 53;

let sessions = 0;

/** The state of a connection between its requests. */
export class Session {
  readonly id: number = ++sessions;
  readonly context: RespContext;
  readonly peer: SessionPeer;
  version: ProtocolVersion = 2;
  name = "";
  library = "";
  libraryVersion = "";
  /** Identifies the client. Undefined until it sends a valid token. */
  #client: string | undefined;
  /** The namespace for which its token was checked last. */
  #admitted: string | undefined;

  constructor(context: RespContext, peer: SessionPeer) {
    this.context = context;
    this.peer = peer;
  }

  /** Whether the client may send more than AUTH and other open commands. */
  get isKnown(): boolean {
    return this.context.tokens === undefined || this.#client !== undefined;
  }

  /** @param token as the client sent it, one character for each byte. @throws RespError */
  authenticate(token: string): void {
    const { tokens } = this.context;
    if (tokens === undefined) {
      throw new RespError("ERR", "Expected no AUTH: this daemon has no tokens; leave user and password out.");
    }
    const client = tokens.clientOf(Buffer.from(token, "latin1").toString());
    if (client === undefined) {
      throw new RespError("WRONGPASS", "Expected a token that this daemon knows as the password; use another one.");
    }
    this.#client = client;
    this.#admitted = undefined;
    this.peer.onKnown();
  }

  /** Restores the state of a new connection. */
  reset(): void {
    this.#client = undefined;
    this.#admitted = undefined;
    this.version = 2;
    this.name = "";
  }

  /** Checks the token again after the file of tokens was reloaded. Returns whether the session may continue. */
  review(): boolean {
    this.#admitted = undefined;
    return this.#client === undefined || this.context.tokens?.knows(this.#client) === true;
  }

  /** Lets a request for IDs of this namespace pass, or throws. Returns a copy of the name. @throws SnowleaseError, RespError */
  admit(name: string): string {
    if (name === this.#admitted) return this.#admitted;
    const namespace = copied(name);
    if (!namespacePattern.test(namespace)) {
      throw configInvalid(`Expected the key, a namespace, ${namespaceRule(namespace)}, got ${shown(namespace)}.`);
    }
    const { tokens } = this.context;
    if (tokens !== undefined && !(this.#client !== undefined && tokens.may(this.#client, "worker", namespace))) {
      const advice = "use another token, or add a line for this one to the daemon's file of tokens";
      throw new RespError(
        "NOPERM",
        `Expected a token of the role \`worker\` for namespace \`${namespace}\`; ${advice}.`,
      );
    }
    this.#admitted = namespace;
    return namespace;
  }

  /** Answers `count` requests for one ID each, all of one namespace, in their order. `count` is at most `mostAtOnce`. */
  answerIds(name: string, count: number): string | Promise<string> {
    const namespace = this.admit(name);
    const target = count === 1 ? one : buffer.subarray(0, count);
    const made = this.context.ids.fillNow(namespace, target);
    const text = count === 1 && made === 1 ? idReply(one[0]) : idReplies(target.subarray(0, made));
    return made === count ? text : this.#later(text, namespace, count - made);
  }

  /** Makes `count` IDs, in ascending order. */
  async take(name: string, count: number): Promise<BigUint64Array> {
    const namespace = this.admit(name);
    const { ids, claimRate, memory } = this.context;
    if (!ids.holds(namespace)) {
      claimRate?.count(this.#client ?? this.peer.address ?? "socket");
      await this.peer.present();
    }
    if (count > mostAtOnce) {
      this.peer.checkWanted();
      this.peer.onceSent(memory.hold(count * bytesOfId));
    }
    return ids.take(namespace, count, () => this.peer.checkWanted());
  }

  /** Answers with one ID as an integer. */
  answerInteger(name: string): string | Promise<string> {
    const namespace = this.admit(name);
    this.#checkExact(namespace);
    return this.context.ids.fillNow(namespace, one) === 1 ? integer(one[0] ?? 0n) : this.#laterInteger(namespace);
  }

  async #laterInteger(namespace: string): Promise<string> {
    const [id = 0n] = await this.take(namespace, 1);
    // The layout is known only now, because the lease knows it.
    this.#checkExact(namespace);
    return integer(id);
  }

  async #later(text: string, namespace: string, count: number): Promise<string> {
    try {
      return text + idReplies(await this.take(namespace, count));
    } catch (error) {
      throw text === "" && count === 1 ? error : new PartialAnswer(text, count, error);
    }
  }

  #checkExact(namespace: string): void {
    const bits = this.context.ids.bitsIn(namespace) ?? 0;
    // An integer of the protocol has 63 bits without its sign, as many as an ID may have.
    if (this.context.integers || bits <= exactBits) return;
    const what = `An ID of namespace \`${namespace}\` has ${bits} bits: as an integer, many clients would round it`;
    throw new RespError("ERR", `${what}; use GET, or start the daemon with \`respIntegers\`.`);
  }
}

/** The error of several requests that were answered together. The first requests have their answers, and the others get the error. */
export class PartialAnswer extends Error {
  readonly answered: string;
  readonly missing: number;

  constructor(answered: string, missing: number, cause: unknown) {
    super("", { cause });
    this.answered = answered;
    this.missing = missing;
  }
}

/** @throws SnowleaseError CONFIG_INVALID */
export function countOf(text: string): number {
  const count = /^[1-9]\d{0,5}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= mostIds) return count;
  throw configInvalid(`Expected a count from 1 to ${mostIds}, got ${shown(text)}.`);
}
