import { type Clock, monotonic } from "./clock.ts";
import { isSnowleaseError, SnowleaseError } from "../id/errors.ts";

/**
 * Asks a registry for a claim or a renewal, and tells a request that arrived late from a clock that is wrong: REGISTRY_UNAVAILABLE in
 * place of CLOCK_SKEW where the clock in the request was right when it was asked, and only the wait made it too old. A refusal
 * changes nothing: the caller may ask again, with its clock as it is then. `clock`: it measures the wait.
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

/** What to say in place of a refusal for skew, where the wait explains the difference. */
function lateness(error: unknown, asked: number, waited: number): SnowleaseError | undefined {
  if (!isSnowleaseError(error, "CLOCK_SKEW")) return undefined;
  const { registryClock, maxClockSkew } = error.details;
  if (typeof registryClock !== "number" || typeof maxClockSkew !== "number") return undefined;
  const behind = registryClock - asked;
  if (behind <= maxClockSkew || behind - waited > maxClockSkew) return undefined;
  return new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `The registry's answer took ${waited} ms: the clock in the request was ${behind} ms behind then, and at most ${maxClockSkew} ms is tolerated; nothing was changed; try again, and check the registry's load and the network.`,
    {},
    { cause: error },
  );
}
