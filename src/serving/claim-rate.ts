import { type Clock, monotonic } from "../clock.ts";
import { SnowleaseError } from "../id/errors.ts";
import { BoundedMap } from "../registries/bounded-map.ts";

export interface ClaimRate {
  /** Counts a claim. @throws SnowleaseError RATE_LIMITED for one too many, with the time after which the next one is none. */
  count(client: string): void;
}

/** What a client may make at once that made none for long, in seconds' worth of claims. */
const burst = 10;
/** Clients that are remembered. With more, the one that claimed the longest ago is forgotten. */
const mostClients = 10_000;

/** @param perSecond claims a second that a client may go on making, above 0. */
export function claimRate(perSecond: number, clock: Clock): ClaimRate {
  const each = 1000 / perSecond;
  /** Client -> when all of its claims would have been made, had they come at that rate; ms of the monotonic clock. */
  const due = new BoundedMap<string, number>(mostClients);

  return {
    count(client) {
      const now = monotonic(clock);
      const at = Math.max(now, due.get(client) ?? now) + each;
      const ahead = at - now - burst * 1000;
      if (ahead > 0) {
        const retryAfterMs = Math.ceil(ahead);
        throw new SnowleaseError(
          "RATE_LIMITED",
          `This client made more claims than ${perSecond} a second; wait ${retryAfterMs} ms, or raise \`claimsPerSecond\` of the daemon.`,
          { retryAfterMs },
        );
      }
      due.set(client, at);
    },
  };
}
