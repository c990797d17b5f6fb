import { expect, test } from "vitest";
import { isSnowleaseError, SnowleaseError } from "../../src/id/errors.ts";
import { askInTime } from "../../src/lease/late-request.ts";
import { fakeClock } from "../../src/testing.ts";

const maxClockSkew = 1000;

/** The code in which a request ends that takes `waited` ms, at a registry whose clock is ahead by so much when it looks. */
async function codeOf(waited: number, ahead: number): Promise<string | undefined> {
  const clock = fakeClock();
  const asking = clock.now();
  const error: unknown = await askInTime(clock, { clock: asking }, async () => {
    await clock.advance(waited);
    throw new SnowleaseError("CLOCK_SKEW", "The clocks differ.", { registryClock: asking + ahead, maxClockSkew });
  }).catch((error: unknown) => error);
  return isSnowleaseError(error) ? error.code : undefined;
}

test("a request that was under way for longer than clocks may differ is late, and no clock is wrong", async () => {
  expect(await codeOf(1800, 1800)).toBe("REGISTRY_UNAVAILABLE");
  expect(await codeOf(1800, 2800)).toBe("REGISTRY_UNAVAILABLE");
});

test.each([
  ["the wait does not explain it", 1800, 2801],
  ["there was none", 0, 1001],
  ["the registry's clock is behind", 1800, -1001],
])("a clock is wrong where %s", async (_, waited, ahead) => {
  expect(await codeOf(waited, ahead)).toBe("CLOCK_SKEW");
});
