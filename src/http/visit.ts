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

/** What one client may take of the daemon. */
export interface Allowances {
  /** The tokens and their rights. Default: every client may do everything. */
  readonly tokens: Tokens | undefined;
  /** How many claims each client may make. Default: any number. */
  readonly claimRate: ClaimRate | undefined;
  /** What large answers may take. Default: of this server alone. */
  readonly memory: AnswerMemory;
  /** The `Authorization` of a browser that was signed in. */
  readonly signedIn: ((request: ApiRequest) => string | null) | undefined;
  /** Called with the connection of each request that showed a token. */
  readonly onKnown: ((socket: Socket) => void) | undefined;
}

/** Which clients a route admits. */
type Admission = Pick<Call, "access" | "signedIn">;

export class Visit {
  readonly request: ApiRequest;
  /** What stands in the path for `:namespace`, `:workerId` or `:id`. */
  readonly param: (name: string) => string | undefined;
  /** What tells this client from others; undefined: there are no tokens. */
  readonly client: string | undefined;
  /** The receipt that the answer bears. */
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

  /** Throws when the client would not be let in any more, as after it signed out. Returns what tells it from others. */
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

  /** The client whose limits count: a token, else an address; all clients of a socket count as one. */
  get payer(): string {
    return this.client ?? this.#response?.req.socket.remoteAddress ?? "socket";
  }

  /** @throws SnowleaseError RATE_LIMITED for one claim too many of this client. */
  countClaim(): void {
    this.#allowances.claimRate?.count(this.payer);
  }

  /** Throws when the client has hung up, as far as the daemon has heard. */
  checkWanted(): void {
    const socket = this.#response?.req.socket;
    if (socket === undefined || !(socket.destroyed || socket.readableEnded)) return;
    // For the log alone: there is no connection left to send it on.
    throw new HttpRefusal(400, "CONFIG_INVALID", "Expected the client to wait for the answer; it hung up.");
  }

  /** Waits until the daemon has heard from all connections. Throws when this one has hung up since its request. */
  async present(): Promise<void> {
    // Node reads a connection once a turn: the request in one, its end at the earliest in the next.
    await turn();
    await turn();
    this.checkWanted();
  }

  /** Reserves bytes for a large answer until it is sent. @throws SnowleaseError RATE_LIMITED when large answers take too much already. */
  hold(bytes: number): void {
    if (this.#response === undefined) return;
    // Of a connection that has ended, there is no end to wait for.
    this.checkWanted();
    this.#response.once("close", this.#allowances.memory.hold(bytes));
  }

  #credentials(): string | null {
    const authorization = this.request.headers.get("authorization");
    return authorization ?? ((this.#entry.signedIn && this.#allowances.signedIn?.(this.request)) || null);
  }
}
