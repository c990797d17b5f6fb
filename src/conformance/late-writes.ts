import { endOf, endsIn, equal } from "./assert.ts";
import { checkNew, type ConformanceCheck } from "./check.ts";
import { receiptOf } from "./receipts.ts";
import type { LateStore } from "./subject.ts";
import { type GrantedClaim, hour, type Trial } from "./trial.ts";

/** All holders have one label, as in containers of one image, so only their tokens differ. No window ends during a check. */
const only = { pool: { first: 0, last: 0 }, window: hour };

type Ask = (trial: Trial, held: GrantedClaim, late: LateStore) => Promise<{ readonly outcome: string }>;

const renewal: Ask = (trial, held, { registry }) =>
  trial.renew(held, { registry, window: hour, receipt: receiptOf(held) });
const giveBack: Ask = (trial, held, { registry }) =>
  trial.release(held, { until: held.grant.from + 1 }, { registry, receipt: receiptOf(held) });

/**
 * Makes a check where a holder sends a request, and the older copy does not know this holder. Another holder claims the worker ID from
 * that copy before the write arrives.
 */
function heldByAnother(what: string, ask: Ask): ConformanceCheck {
  return checkNew(
    `${what} that was decided before the store was put back changes nothing of the claim that stands there`,
    async (trial) => {
      await trial.init({ maxWindow: hour, new: true });
      const late = await trial.late();
      const earlier = await trial.claim(only);
      await trial.released(earlier, { until: earlier.grant.from + 1 });
      const putBack = await late.copy();
      const held = await trial.claim(only, late.registry);
      const kept = late.keepNext();
      const answer = endOf(ask(trial, held, late));
      await Promise.race([kept, answer]);
      await putBack();
      const next = await trial.claim(only);
      const record = await trial.record(0);
      late.arrive();
      await endsIn(answer, ["lost", "QUARANTINE"], what);
      equal(await trial.record(0), record, "the record");
      await endsIn(endOf(renewal(trial, held, late)), ["lost", "QUARANTINE"], "the next renewal of that holder");
      await endsIn(endOf(trial.renew(next, { window: hour })), ["renewed", "QUARANTINE"], "a renewal of the other");
    },
    "late-writes",
  );
}

/** A write that arrives after an older copy of the store was put back. Versions that a store counts repeat there. */
export const lateWrites: readonly ConformanceCheck[] = [
  heldByAnother("a renewal", renewal),
  heldByAnother("a give-back", giveBack),

  checkNew(
    "a claim that was decided before the store was put back takes no number from its holder",
    async (trial) => {
      await trial.init({ maxWindow: hour, new: true });
      const late = await trial.late();
      const held = await trial.claim(only);
      // This claim writes what a claim notes of the pool, so that the copy has it.
      await endsIn(endOf(trial.ask(only)), ["exhausted"], "another claim");
      const putBack = await late.copy();
      await trial.released(held, { until: held.grant.from + 1 });
      const kept = late.keepNext();
      const answer = endOf(trial.ask(only, late.registry));
      await Promise.race([kept, answer]);
      await putBack();
      await trial.renewed(held, { window: hour });
      const record = await trial.record(0);
      late.arrive();
      await endsIn(answer, ["exhausted", "QUARANTINE"], "the claim");
      equal(await trial.record(0), record, "the record");
    },
    "late-writes",
  ),
];
