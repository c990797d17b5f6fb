import { mostIds } from "../api/ids.ts";
import { configInvalid, shown } from "../id/errors.ts";
import { namespacePattern, namespaceRule } from "../id/namespace.ts";
import type { IdMaker } from "../ops/ids.ts";
import type { AnswerMemory } from "../serving/answer-memory.ts";
import type { ClaimRate } from "../serving/claim-rate.ts";
import type { Tokens } from "../serving/tokens.ts";
import { copied } from "./parser.ts";
import { failure, idReplies, idReply, integer, type ProtocolVersion } from "./replies.ts";

/** What the connections of a server share. */
export interface RespContext {
  readonly ids: IdMaker;
  /** Default: every client may do everything. */
  readonly tokens?: Tokens | undefined;
  /** How many claims each client may make. Default: any number. */
  readonly claimRate?: ClaimRate | undefined;
  /** What large answers may take, together with those of the other protocols. */
  readonly memory: AnswerMemory;
  /** INCR answers with an integer also where IDs have more than 53 bits. */
  readonly integers: boolean;
  readonly version: string;
}

/** The connection of a session, as far as the session knows it. */
interface SessionPeer {
  /** Undefined: it came over a Unix socket. */
  readonly address: string | undefined;
  /** Throws when the client has hung up, as far as the daemon has heard. */
  checkWanted(): void;
  /** Waits until the daemon has heard from all connections. Throws when this client has hung up. */
  present(): Promise<void>;
  /** Calls this once the answer that comes next is sent, or the connection has ended. */
  onceSent(free: () => void): void;
  /** The client has shown a token. */
  onKnown(): void;
}

export type RespCode = "ERR" | "NOAUTH" | "NOPERM" | "NOPROTO" | "WRONGPASS";

/** An error in the words of Redis, which clients look for. */
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

/** Memory for an ID in an answer that is being made, bytes: the number, and its text. */
const bytesOfId = 64;
/** IDs that are made at once without waiting; answers of more count against the memory for large answers. */
export const mostAtOnce = 1024;
/** Between being filled and being read, nothing else runs. */
const buffer = new BigUint64Array(mostAtOnce);
const one = new BigUint64Array(1);
/** Bits that a number of JavaScript holds exactly. */
const exactBits = 53;

let sessions = 0;

/** What a connection is between its requests. */
export class Session {
  readonly id: number = ++sessions;
  readonly context: RespContext;
  readonly peer: SessionPeer;
  version: ProtocolVersion = 2;
  name = "";
  library = "";
  libraryVersion = "";
  /** What tells its client from others; undefined: it has shown no token. */
  #client: string | undefined;
  /** The namespace for which its token was looked at last. */
  #admitted: string | undefined;

  constructor(context: RespContext, peer: SessionPeer) {
    this.context = context;
    this.peer = peer;
  }

  /** Whether it may ask for anything but to be known. */
  get isKnown(): boolean {
    return this.context.tokens === undefined || this.#client !== undefined;
  }

  /** @param token as it came, a character a byte. @throws RespError */
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

  /** Begins anew, as after connecting. */
  reset(): void {
    this.#client = undefined;
    this.#admitted = undefined;
    this.version = 2;
    this.name = "";
  }

  /** Looks at the tokens again: they were read again. Returns whether the session may go on. */
  review(): boolean {
    this.#admitted = undefined;
    return this.#client === undefined || this.context.tokens?.knows(this.#client) === true;
  }

  /** Lets a request for IDs of this namespace pass, or throws. Returns its name, with memory of its own. @throws SnowleaseError, RespError */
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

  /** Answers as many requests for one ID each, all of one namespace, in their order. At most `mostAtOnce`. */
  answerIds(name: string, count: number): string | Promise<string> {
    const namespace = this.admit(name);
    const target = count === 1 ? one : buffer.subarray(0, count);
    const made = this.context.ids.fillNow(namespace, target);
    const text = count === 1 && made === 1 ? idReply(one[0]) : idReplies(target.subarray(0, made));
    return made === count ? text : this.#later(text, namespace, count - made);
  }

  /** So many IDs, in ascending order. */
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

  /** One ID as an integer. */
  answerInteger(name: string): string | Promise<string> {
    const namespace = this.admit(name);
    this.#checkExact(namespace);
    return this.context.ids.fillNow(namespace, one) === 1 ? integer(one[0] ?? 0n) : this.#laterInteger(namespace);
  }

  async #laterInteger(namespace: string): Promise<string> {
    const [id = 0n] = await this.take(namespace, 1);
    // Only now there is a lease, which knows the layout.
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
    // An integer of the protocol has 63, as many as an ID may have.
    if (this.context.integers || bits <= exactBits) return;
    const what = `An ID of namespace \`${namespace}\` has ${bits} bits: as an integer, many clients would round it`;
    throw new RespError("ERR", `${what}; use GET, or start the daemon with \`respIntegers\`.`);
  }
}

/** Of several requests at once, only the first have their answers; the others get the error. */
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
