import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { Access, Call } from "../api/call.ts";
import type { AnswerMemory } from "../serving/answer-memory.ts";
import type { ClaimRate } from "../serving/claim-rate.ts";
import { HttpRefusal } from "./problem.ts";
import type { ApiRequest } from "./request.ts";
import { admit } from "./access/credentials.ts";
import type { Tokens } from "../serving/tokens.ts";

/** Limits of what one client may use of the daemon. */
export interface Allowances {
  /** The tokens and their rights. Default: every client may do everything. */
  readonly tokens: Tokens | undefined;
  /** How many claims each client may make. Default: any number. */
  readonly claimRate: ClaimRate | undefined;
  /** The memory for large answers. Default: a budget of this server alone. */
  readonly memory: AnswerMemory;
  /** Returns the `Authorization` of a browser that is signed in. */
  readonly signedIn: ((request: ApiRequest) => string | null) | undefined;
  /** Called with the connection of each request that showed a token. */
  readonly onKnown: ((socket: Socket) => void) | undefined;
}

/** Which clients a route admits. */
type Admission = Pick<Call, "access" | "signedIn">;

export class Visit {
  readonly request: ApiRequest;
  /** The part of the path for `:namespace`, `:workerId` or `:id`. */
  readonly param: (name: string) => string | undefined;
  /** Identifies this client. Undefined if the daemon has no tokens, or the route is open. */
  readonly client: string | undefined;
  /** The receipt that is sent with the answer. */
  receipt: string | undefined;
  readonly #entry: Admission;
  readonly #allowances: Allowances;
  readonly #response: ServerResponse | undefined;

  /** @throws SnowleaseError UNAUTHORIZED, FORBIDDEN */
  constructor(
    entry: Admission,
    allowances: Allowances,
    request: ApiRequest,
    param: Visit["param"],
    response: ServerResponse | undefined,
  ) {
    this.request = request;
    this.param = param;
    this.#entry = entry;
    this.#allowances = allowances;
    this.#response = response;
    this.client = this.admit();
    if (this.client !== undefined && response !== undefined) allowances.onKnown?.(response.req.socket);
  }

  /** Throws when the client has lost its access, for example because it signed out. Returns a text that identifies the client. */
  admit(access: Access = this.#entry.access): string | undefined {
    if (access === "open") return undefined;
    const { tokens } = this.#allowances;
    return tokens && admit(tokens, this.#credentials(), access, this.param("namespace"));
  }

  may(access: Access): boolean {
    try {
      this.admit(access);
      return true;
    } catch {
      return false;
    }
  }

  /** The client whose limits count: a token, or else an address. All clients of a Unix socket count as one. */
  get payer(): string {
    return this.client ?? this.#response?.req.socket.remoteAddress ?? "socket";
  }

  /** Counts a claim of this client. @throws SnowleaseError RATE_LIMITED when the client has made too many claims. */
  countClaim(): void {
    this.#allowances.claimRate?.count(this.payer);
  }

  /** Throws when the client has hung up, as far as the daemon has heard. */
  checkWanted(): void {
    const socket = this.#response?.req.socket;
    if (socket === undefined || !(socket.destroyed || socket.readableEnded)) return;
    // Only the log shows this error, because the connection is gone.
    throw new HttpRefusal(400, "CONFIG_INVALID", "Expected the client to wait for the answer; it hung up.");
  }

  /** Waits until the daemon has read all connections. Throws when this client has hung up since its request. */
  async present(): Promise<void> {
    // Node reads a connection once in each turn of the event loop. So it reads a connection's end at least one turn after the request.
    await turn();
    await turn();
    this.checkWanted();
  }

  /** Reserves bytes for a large answer until it is sent. @throws SnowleaseError RATE_LIMITED when large answers take too much already. */
  hold(bytes: number): void {
    if (this.#response === undefined) return;
    // A connection that has already ended emits no `close` any more.
    this.checkWanted();
    this.#response.once("close", this.#allowances.memory.hold(bytes));
  }

  #credentials(): string | null {
    const authorization = this.request.headers.get("authorization");
    return authorization ?? ((this.#entry.signedIn && this.#allowances.signedIn?.(this.request)) || null);
  }
}
