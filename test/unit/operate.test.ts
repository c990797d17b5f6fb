import { expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { checkSkew } from "../../src/rule/limits.ts";
import { operate } from "../../src/registries/compare-and-set/operate.ts";
import { Unanswered } from "../../src/registries/compare-and-set/store.ts";
import { fakeClock } from "../../src/testing.ts";

const store = {
  title: "A store",
  clock: fakeClock(),
  operationTimeout: 1000,
  silent: (cause: Error) => new SnowleaseError("REGISTRY_UNAVAILABLE", "It did not answer.", {}, { cause }),
};

test("an unknown result stays unknown, whatever refuses a later attempt", async () => {
  for (const code of ["CLOCK_SKEW", "QUARANTINE", "CONFIG_INVALID", "REGISTRY_UNAVAILABLE"] as const) {
    const failures = [new Unanswered("It was sent."), new SnowleaseError(code, "It is refused.")];
    const asked = operate(store, { repeatable: true }, async () => {
      throw failures.shift() ?? new Error("There is no third attempt.");
    });
    await expect(asked).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE", message: "It did not answer." });
    const refused = operate(store, { repeatable: true }, () => Promise.reject(new SnowleaseError(code, "It is so.")));
    await expect(refused).rejects.toMatchObject({ code, message: "It is so." });
  }
});

test("a claim that a server let wait is sent again with the clock that its holder has by then", async () => {
  const clock = fakeClock();
  const info = { id: "", layout: "", maxWindow: 120_000, maxClockSkew: 10_000 };
  const waits = [11_000, 0];
  /** Asks with a clock that is behind by so many ms. */
  const ask = (behind: number) => {
    const asked = clock.now() - behind;
    const slow = { ...store, clock, operationTimeout: 60_000 };
    return operate(slow, { repeatable: true }, async ({ waited }) => {
      await clock.advance(waits.shift() ?? 0);
      checkSkew(asked + waited, clock.now(), info);
      return waited;
    });
  };
  expect(await ask(0)).toBe(11_000);
  waits.push(2000);
  await expect(ask(12_500)).rejects.toMatchObject({ code: "CLOCK_SKEW" });
  waits.push(...Array.from({ length: 10 }, () => 11_000));
  await expect(ask(0)).rejects.toMatchObject({ code: "CLOCK_SKEW" });
});
