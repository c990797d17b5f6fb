import { type Clock, monotonic } from "../clock.ts";
import { isSnowleaseError, SnowleaseError } from "../id/errors.ts";

/**
 * Sends a claim or a renewal. Throws REGISTRY_UNAVAILABLE instead of CLOCK_SKEW if only the wait, which `clock` measures, made the
 * request's clock too old: the caller may repeat the request with its present clock.
 */
export async function askInTime<Request extends { readonly clock: number }, Answer>(
  clock: Clock,
  request: Request,
  ask: (request: Request) => Promise<Answer>,
): Promise<Answer> {
  const asked = monotonic(clock);
  try {
    return await ask(request);
  } catch (error) {
    throw lateness(error, request.clock, Math.ceil(monotonic(clock) - asked)) ?? error;
  }
}

/** The error in place of CLOCK_SKEW, if the wait explains the difference. */
function lateness(error: unknown, asked: number, waited: number): SnowleaseError | undefined {
  if (!isSnowleaseError(error, "CLOCK_SKEW")) return undefined;
  const { registryClock, maxClockSkew } = error.details;
  if (typeof registryClock !== "number" || typeof maxClockSkew !== "number") return undefined;
  const behind = registryClock - asked;
  if (behind <= maxClockSkew || behind - waited > maxClockSkew) return undefined;
  const late = `the request's clock was ${behind} ms behind by then, and at most ${maxClockSkew} ms is tolerated`;
  const advice = "nothing was changed; try again, and check the registry's load and the network.";
  const message = `The registry's answer took ${waited} ms: ${late}; ${advice}`;
  return new SnowleaseError("REGISTRY_UNAVAILABLE", message, {}, { cause: error });
}
