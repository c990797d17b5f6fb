import type { Clock } from "../../clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { Grant, Lost, Refusal } from "../../rule/registry.ts";

/** The leases of one client in one namespace. */
interface ClientLeases {
  /** Token of a lease -> end of its window, Unix ms. Windows that have passed are forgotten at `next`. */
  readonly until: Map<string, number>;
  /** Claims in progress. */
  claims: number;
  /** No window ends before this time, Unix ms. */
  next: number;
}

interface Claimer {
  /** Identifies the client. */
  readonly client: string;
  readonly namespace: string;
  readonly token: string;
}

/** Wait before the next try if claims in progress use the whole quota, ms. */
const soon = 1000;
/** How many clients, each in a namespace, are remembered. Beyond that, clients without a lease are forgotten, or else the oldest client. */
const mostRemembered = 10_000;

/**
 * The share of a namespace's worker IDs that one client may have at once. A worker ID counts until its window ends, also after a release
 * without usage. The quota counts grants and renewals of this daemon, so that renewals restore the count after a restart.
 */
export class ClientQuota {
  readonly #percent: number;
  readonly #clock: Clock;
  readonly #clients = new Map<string, ClientLeases>();

  /** @param percent of the worker IDs of a pool, from 1 to 100. At least one worker ID, also of a small pool. */
  constructor(percent: number, clock: Clock) {
    this.#percent = percent;
    this.#clock = clock;
  }

  /**
   * Sends a claim and counts its grant. A repeated claim counts once. @param size of the pool, worker IDs.
   * @throws SnowleaseError RATE_LIMITED when the client has all worker IDs that it may have.
   */
  async claim(
    { client, namespace, token }: Claimer,
    size: number,
    ask: () => Promise<Grant | Lost | Refusal>,
  ): Promise<Grant | Lost | Refusal> {
    const leases = this.#leasesOf(client, namespace);
    const most = Math.max(1, Math.floor((size * this.#percent) / 100));
    this.#forgetPassed(leases);
    if (leases.until.size + leases.claims >= most && !leases.until.has(token)) {
      const retryAfterMs = leases.until.size > 0 ? Math.max(1, leases.next - this.#clock.now()) : soon;
      throw new SnowleaseError(
        "RATE_LIMITED",
        `This client has ${most} of the ${size} worker IDs of namespace \`${namespace}\`, which is all that one client may have; give one back, or raise \`clientQuota\` of the daemon.`,
        { namespace, retryAfterMs },
      );
    }
    leases.claims++;
    try {
      const answer = await ask();
      if (answer.outcome === "granted") set(leases, token, answer.until);
      return answer;
    } finally {
      leases.claims--;
    }
  }

  /** Notes the new end of a window after a renewal or a release, Unix ms. */
  note({ client, namespace, token }: Claimer, until: number): void {
    const leases = this.#leasesOf(client, namespace);
    this.#forgetPassed(leases);
    if (until > this.#clock.now()) set(leases, token, until);
    else leases.until.delete(token);
  }

  #leasesOf(client: string, namespace: string): ClientLeases {
    const key = `${namespace} ${client}`;
    const found = this.#clients.get(key);
    if (found !== undefined) return found;
    if (this.#clients.size >= mostRemembered) this.#forgetSome();
    const made = { until: new Map<string, number>(), claims: 0, next: Infinity };
    this.#clients.set(key, made);
    return made;
  }

  #forgetSome(): void {
    for (const [key, leases] of this.#clients) {
      this.#forgetPassed(leases);
      if (leases.until.size + leases.claims === 0) this.#clients.delete(key);
    }
    const [first] = this.#clients.keys();
    if (this.#clients.size >= mostRemembered && first !== undefined) this.#clients.delete(first);
  }

  #forgetPassed(leases: ClientLeases): void {
    const now = this.#clock.now();
    if (now < leases.next) return;
    leases.next = Infinity;
    for (const [token, until] of leases.until) {
      if (until <= now) leases.until.delete(token);
      else leases.next = Math.min(leases.next, until);
    }
  }
}

function set(leases: ClientLeases, token: string, until: number): void {
  leases.until.set(token, until);
  leases.next = Math.min(leases.next, until);
}
