import { randomBytes } from "node:crypto";
import { type Clock, monotonic } from "../../clock.ts";
import type { ApiRequest } from "../request.ts";

/** How long a browser stays signed in, ms. */
const lifetime = 12 * 3_600_000;
/** How many browsers may be signed in. Beyond that, the token with the most browsers loses its oldest one. */
const mostSessions = 1000;

interface SignIn {
  readonly token: string;
  /** On the monotonic clock, ms. */
  readonly ends: number;
}

/**
 * Browsers that are signed in. A browser keeps a random name instead of the token, because it sends its cookies to every port of the
 * host. Each request checks the token again, so that revoking it takes effect at once.
 */
export class SignIns {
  readonly #clock: Clock;
  readonly #sessions = new Map<string, SignIn>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Signs in with a token that the caller has checked. Returns the `Set-Cookie`. */
  start(request: ApiRequest, token: string): string {
    const id = randomBytes(16).toString("hex");
    this.#sessions.set(id, { token, ends: monotonic(this.#clock) + lifetime });
    if (this.#sessions.size > mostSessions) this.#sessions.delete(this.#superfluous());
    return cookie(request, id, lifetime / 1000);
  }

  #superfluous(): string {
    const byToken = new Map<string, string[]>();
    for (const [id, { token }] of this.#sessions) byToken.set(token, [...(byToken.get(token) ?? []), id]);
    const [[oldest = ""] = []] = [...byToken.values()].toSorted((a, b) => b.length - a.length);
    return oldest;
  }

  /** Signs out. Returns the `Set-Cookie`. */
  end(request: ApiRequest): string {
    this.#sessions.delete(idOf(request) ?? "");
    return cookie(request, "", 0);
  }

  /** The `Authorization` that the cookie of a request stands for. Null if the browser is not signed in. */
  authorizationOf(request: ApiRequest): string | null {
    const id = idOf(request) ?? "";
    const session = this.#sessions.get(id);
    if (session === undefined) return null;
    if (monotonic(this.#clock) < session.ends) return `Bearer ${session.token}`;
    this.#sessions.delete(id);
    return null;
  }
}

function cookie(request: ApiRequest, value: string, maxAge: number): string {
  const secure = isSecure(request) ? "; Secure" : "";
  return `${nameOf(request)}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${secure}`;
}

function idOf(request: ApiRequest): string | undefined {
  const wanted = `${nameOf(request)}=`;
  const found = (request.headers.get("cookie") ?? "").split("; ").find((pair) => pair.startsWith(wanted));
  return found?.slice(wanted.length);
}

/** The cookie's name. It contains the port, because otherwise several daemons of one host would sign out each other's users. */
function nameOf(request: ApiRequest): string {
  const [, port = ""] = /:(\d{1,5})$/.exec(request.headers.get("host") ?? "") ?? [];
  return `${isSecure(request) ? "__Host-" : ""}snowlease${port}`;
}

function isSecure(request: ApiRequest): boolean {
  return request.url.startsWith("https:");
}
