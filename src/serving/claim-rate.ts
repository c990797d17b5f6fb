import { type Clock, monotonic } from "../clock.ts";
import { SnowleaseError } from "../id/errors.ts";
import { BoundedMap } from "../registries/bounded-map.ts";

export interface ClaimRate {
  /** Counts a claim. @throws SnowleaseError RATE_LIMITED above the limit, with the time after which a claim is allowed. */
  count(client: string): void;
}

/** After a long pause, a client may make the claims of this many seconds at once. */
const burst = 10;
/** How many clients are remembered. Beyond that, the one whose last claim is the oldest is forgotten. */
const mostClients = 10_000;

/** @param perSecond claims a second that a client may make all the time, above 0. */
export function claimRate(perSecond: number, clock: Clock): ClaimRate {
  const each = 1000 / perSecond;
  /** Client -> the time at which its claims would end at exactly that rate, ms of the monotonic clock. */
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
