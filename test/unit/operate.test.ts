import { describe, expect, test } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { Beaten, Changed, operate, Unanswered } from "../../src/registries/engine/operate.ts";

const operationTimeout = 5000;
/** How long each attempt takes, ms. */
const took = 10;

const down = new SnowleaseError("REGISTRY_UNAVAILABLE", "It has no connection left.");
const noDisk = new SnowleaseError("REGISTRY_UNAVAILABLE", "It has no space left.");
const silence = new Unanswered("no answer", { wrote: false });
const lost = new Unanswered("the commit has no answer");
const full = new Unanswered("", { wrote: false, told: down });
const broken = new Unanswered("", { wrote: false, told: noDisk, lasts: true });

/** Runs an operation whose attempts fail one after the other; the last one goes on failing. Its clock moves while it works and sleeps. */
async function outcomeOf(failures: readonly Error[], { repeatable = true } = {}) {
  let now = 0;
  const pauses: number[] = [];
  const waits: number[] = [];
  const clock: Clock = {
    now: () => now,
    nanos: () => BigInt(Math.round(now * 1e6)),
    async sleep(ms) {
      pauses.push(ms);
      now += ms;
    },
  };
  const silent = ({ message }: Unanswered, isUnknown: boolean) =>
    new SnowleaseError("REGISTRY_UNAVAILABLE", `${message}: ${isUnknown ? "not known" : "nothing changed"}`);
  const store = { title: "The stub", clock, operationTimeout, silent };
  const work = async ({ waited }: { waited(): number }): Promise<string> => {
    waits.push(waited());
    now += took;
    const failure = failures[Math.min(waits.length, failures.length) - 1];
    if (failure === undefined) return "done";
    throw failure;
  };
  const told = await operate(store, { repeatable }, work).catch((error: Error) => error.message);
  return { told, pauses, waits, attempts: waits.length, ended: now };
}

describe("a write without an answer", () => {
  test.each([
    ["silence", [lost, silence]],
    ["a server that says what may pass", [lost, full]],
    ["a server that says what lasts", [lost, broken]],
    ["lost races", [lost, new Beaten()]],
    ["an error of the connection", [lost, down]],
    ["what a server had said before", [full, lost, full]],
  ])("stays unknown behind %s", async (_, failures) => {
    expect((await outcomeOf(failures)).told).toMatch(/: not known$/);
  });

  test("is found out about, where a later attempt decides", async () => {
    const refusal = new SnowleaseError("QUARANTINE", "A quarantine is under way.");
    expect(await outcomeOf([lost, refusal])).toMatchObject({ told: refusal.message, attempts: 2 });
  });

  test("ends an operation that may not be repeated, and one of its reads does not", async () => {
    const once = { repeatable: false };
    expect(await outcomeOf([silence, lost], once)).toMatchObject({ told: `${lost.message}: not known`, attempts: 2 });
  });
});

test("what a server said is told rather than its silence at a later attempt, and rather than nothing where it said that late", async () => {
  expect((await outcomeOf([full, silence])).told).toBe(down.message);
  expect((await outcomeOf([silence, full])).told).toBe(down.message);
  expect((await outcomeOf([silence])).told).toBe(`${silence.message}: nothing changed`);
});

test("what lasts is told at once", async () => {
  expect(await outcomeOf([full, broken])).toMatchObject({ told: noDisk.message, attempts: 2 });
});

test("an operation that others are faster than pauses behind its third loss, and says at its deadline that nothing was changed", async () => {
  const { told, pauses, attempts, ended } = await outcomeOf([new Beaten()]);
  expect(told).toMatch(
    /^Other writers were faster \d+ times within 5000 ms at The stub, nothing was changed; try again\.$/,
  );
  // Two without a pause, and the last one.
  expect(attempts - pauses.length).toBe(3);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(40);
  expect(ended).toBeLessThanOrEqual(operationTimeout + took);
});

test("what has changed is read again at once, until the deadline", async () => {
  const { pauses, attempts } = await outcomeOf([new Changed()]);
  expect([pauses, attempts]).toEqual([[], operationTimeout / took]);
});

test("pauses behind attempts without an answer double, by lot, and none goes beyond the deadline", async () => {
  const { pauses, waits, ended } = await outcomeOf([silence]);
  for (const [i, pause] of pauses.entries()) {
    const longest = Math.min(25 * 2 ** i, 800);
    expect(pause).toBeGreaterThanOrEqual(longest / 2);
    expect(pause).toBeLessThanOrEqual(longest);
  }
  expect(ended).toBeLessThanOrEqual(operationTimeout + took);
  const passed = pauses.map((_, i) => pauses.slice(0, i + 1).reduce((sum, each) => sum + each, (i + 1) * took));
  expect(waits).toEqual([0, ...passed.map((ms) => Math.floor(ms))].map((ms) => expect.closeTo(ms, 0) as number));
});
