import type { Registry } from "../rule/registry.ts";
import { endOf, endsIn, ensure, equal, outcome } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { type GrantedClaim, long, newToken, on, short, type Trial } from "./trial.ts";

/** The error of a client that gave up. */
const unanswered = "REGISTRY_UNAVAILABLE";
/** The time in which a request still has its effect after its client got an answer, ms. */
const afterEnd = 100;
/** How often a check looks whether the store has done what it was asked for, and the pause in between, ms. */
const [mostLooks, betweenLooks] = [1000, 5];

/** An operation whose first answer is lost. */
interface UnheardRequest {
  /** Sends the request. */
  readonly ask: (registry: Registry) => Promise<{ readonly outcome: string }>;
  /** Whether the store has done the request. */
  readonly isDone: () => Promise<boolean>;
  /** Runs before the client learns that the connection broke. Default: nothing. */
  readonly meanwhile?: () => Promise<void>;
}

/** Loses the first answer to an operation. Resolves to how the operation ends. */
async function unheard(trial: Trial, { ask, isDone, meanwhile }: UnheardRequest): Promise<string> {
  const lossy = await trial.lossy();
  const kept = lossy.keepAnswer();
  const end = endOf(ask(lossy.registry));
  const early = end.then((seen) => ensure(false, "no answer while that is kept", seen));
  await Promise.race([kept, early]);
  for (let looks = 0; !(await isDone()); looks++) {
    ensure(looks < mostLooks, "the store to do what it was asked for", "nothing");
    await trial.pause(betweenLooks);
  }
  await meanwhile?.();
  lossy.lose();
  const seen = await end;
  // A request that the driver keeps for a new connection goes before this one.
  await lossy.registry.describe(trial.namespace);
  await trial.pause(afterEnd);
  return seen;
}

/**
 * Makes a check of a request that ends a claim with this window. The client sends it again after another holder has claimed the worker
 * ID.
 */
function endsOneClaim(
  what: string,
  window: number,
  ends: readonly string[],
  ask: (registry: Registry, trial: Trial, held: GrantedClaim) => Promise<{ readonly outcome: string }>,
): ConformanceCheck {
  return check(
    `${what} whose answer is lost ends no claim that was made since`,
    async (trial) => {
      const held = await trial.claim({ workerId: 7, window });
      let next = held;
      const end = await unheard(trial, {
        ask: (registry) => ask(registry, trial, held),
        isDone: async () => (await trial.record(7)).releasedAt !== undefined,
        async meanwhile() {
          await trial.passed((await trial.record(7)).until);
          next = await trial.claim({ workerId: 7, holder: on("beta") });
        },
      });
      await endsIn(end, [...ends, unanswered], what);
      const { fence, state } = await trial.record(7);
      equal([fence, state], [next.grant.fence, "live"], "fence and state of the worker ID");
      await trial.renewed(next);
    },
    "lost-answers",
  );
}

/** What a client sends again after its connection broke before the answer came. The store has done the request already. */
export const lostAnswers: readonly ConformanceCheck[] = [
  check(
    "a claim whose answer is lost is granted once",
    async (trial) => {
      // The first claim from a pool, or by a host, may write more than its record.
      const before = await trial.claim({ workerId: 7 });
      const request = trial.request({ workerId: 8 });
      const end = await unheard(trial, {
        ask: (registry) => registry.claim(request),
        isDone: async () => (await trial.registry.worker(trial.namespace, 8)) !== undefined,
      });
      await endsIn(end, ["granted", unanswered], "the claim");
      const { fence } = outcome(await trial.registry.claim(request), "granted", "the same claim");
      equal(fence, (await trial.record(8)).fence, "its fence");
      equal(fence, before.grant.fence, "the fence of a first claim");
      equal((await trial.records()).length, 2, "the number of worker IDs in use");
    },
    "lost-answers",
  ),

  check(
    "a renewal whose answer is lost is no other process's",
    async (trial) => {
      const held = await trial.claim({ workerId: 7, window: 20_000 });
      const nextTurn = newToken();
      const end = await unheard(trial, {
        ask: (registry) => trial.renew(held, { registry, nextTurn, window: long }),
        isDone: async () => (await trial.record(7)).until > held.grant.until,
      });
      await endsIn(end, ["renewed", unanswered], "the renewal");
      equal((await trial.renewed(held, { nextTurn })).turn, nextTurn, "the turn of the same renewal");
      await trial.renewed(held, { turn: nextTurn, nextTurn: newToken() });
    },
    "lost-answers",
  ),

  endsOneClaim("a give-back", long, ["released", "lost"], (registry, trial, held) =>
    trial.release(held, { until: held.grant.from }, { registry }),
  ),

  endsOneClaim("a forced release that names no claim", short, ["released", "superseded"], (registry, { namespace }) =>
    registry.forceRelease({ namespace, workerId: 7, force: true }),
  ),

  check(
    "an unpin whose answer is lost takes no pin away that was made since",
    async (trial) => {
      await trial.usedOnce(8, 100, "alpha");
      for (const workerId of [7, 8]) {
        await trial.pin(workerId);
        const end = await unheard(trial, {
          async ask(registry) {
            return { outcome: String(await registry.unpin(trial.namespace, workerId)) };
          },
          isDone: async () => (await trial.registry.worker(trial.namespace, workerId))?.pinned === undefined,
          meanwhile: () => trial.pin(workerId, "kept once more"),
        });
        await endsIn(end, ["true", "false", unanswered], "the unpin");
        equal((await trial.record(workerId)).pinned, "kept once more", `the pin of worker ${workerId}`);
      }
    },
    "lost-answers",
  ),
];
