import { isTrialName, trialPrefix } from "../rule/drop.ts";
import type { NamespaceInfo, NamespaceLimits } from "../rule/limits.ts";
import { isSnowleaseError } from "../id/errors.ts";
import type { ClaimedWindow, Dropped, DropRequest } from "../rule/registry.ts";
import { between, ensure, equal, outcome, refuses } from "./assert.ts";
import { checkNew, type ConformanceCheck } from "./check.ts";
import { known } from "./receipts.ts";
import { layout, long, newToken, on, otherLayout, recentsFrom, short, type GrantedClaim, type Trial } from "./trial.ts";

/** Limits whose quarantine a check waits for, ms. */
const brief: NamespaceLimits = { maxWindow: 100, maxClockSkew: 1500 };
/** Limits whose quarantine no check waits for, ms. */
const usual: NamespaceLimits = { maxWindow: 2000, maxClockSkew: 10_000 };

/** Requests that race with an order to drop, at most. */
const mostBatches = 20;

/** An operator drops the namespace. */
async function drop(trial: Trial, request: Partial<DropRequest> & Pick<DropRequest, "id">): Promise<Dropped> {
  const { registry, namespace } = trial;
  ensure(
    registry.dropNamespace !== undefined,
    "a registry that can drop namespaces to have `dropNamespace`",
    registry.kind,
  );
  return registry.dropNamespace({ namespace, ...request });
}

/** Makes the namespace, and returns its id. */
async function made(trial: Trial, limits: NamespaceLimits = brief): Promise<string> {
  const { id = "" } = await trial.init({ ...limits, new: true });
  return id;
}

/** Drops the namespace. Returns when one of this name grants again. */
async function dropped(trial: Trial, id: string, { maxWindow, maxClockSkew } = brief): Promise<number> {
  const { clock } = await trial.registry.ping();
  const length = maxWindow + 2 * maxClockSkew;
  const { grantsFrom } = await drop(trial, { id });
  between(grantsFrom, clock + length, clock + length + long, "when a namespace of this name grants again");
  return grantsFrom ?? 0;
}

/** All that a store shows of the namespace. A state changes by itself, and with it how programs without windows see the worker ID. */
async function shownOf(trial: Trial, workerId: number): Promise<unknown> {
  const records = (await trial.records()).map(({ state: _, marked: __, ...record }) => record);
  return [await trial.describe(), records, await trial.history(workerId)];
}

/** A holder, a repeat of its claim, and a holder that gave back: what they send, late. */
async function askLate(trial: Trial, held: GrantedClaim, given: GrantedClaim, when: string): Promise<void> {
  const answers = {
    renewal: await trial.renew(held, { receipt: held.grant.receipt, window: short, clock: trial.now() }),
    "renewal without a receipt": await trial.renew(held, { window: short }),
    "give-back": await trial.release(held, undefined, { receipt: held.grant.receipt }),
    "repeated give-back": await trial.release(given, undefined, { receipt: given.grant.receipt }),
  };
  for (const [what, answer] of Object.entries(answers)) outcome(answer, "lost", `a ${what} ${when}`);
}

/** The end of a namespace, and what a later one of its name may grant. */
export const drops: readonly ConformanceCheck[] = [
  checkNew(
    "a namespace is dropped with its records and its history, and another one stays",
    async (trial) => {
      const id = await made(trial, usual);
      const neighbour = await trial.otherNamespace();
      await trial.crashed();
      await trial.crashed();
      const kept = await trial.claim({ namespace: neighbour, workerId: 7 });
      await trial.pin(8);
      await trial.unpin(8);
      await dropped(trial, id, usual);
      equal(await shownOf(trial, 7), [undefined, [], []], "what is known of the namespace");
      equal(await trial.registry.worker(trial.namespace, 7), undefined, "the record of worker 7");
      equal(await trial.registry.receiptKey?.(trial.namespace), undefined, "its receipt key");
      await trial.renewed(kept);
      await refuses("NOT_FOUND", "a second drop", drop(trial, { id }));
    },
    "drops",
  ),

  checkNew(
    "a namespace with an open window or a pin is not dropped, nor one of another id, and nothing changes",
    async (trial) => {
      const id = await made(trial, usual);
      const refuse = async (
        code: "CONFIG_INVALID" | "WORKER_ID_HELD",
        what: string,
        request: Parameters<typeof drop>[1] = { id },
      ) => {
        const before = await shownOf(trial, 7);
        await refuses(code, `a drop ${what}`, drop(trial, request));
        equal(await shownOf(trial, 7), before, `what is known of the namespace after a drop ${what}`);
      };
      await refuse("CONFIG_INVALID", "of another id", { id: newToken() });
      await refuse("CONFIG_INVALID", "without an id", { id: "" });
      if (!isTrialName(trial.namespace)) {
        await refuse("CONFIG_INVALID", "for good of a namespace that is no trial's", { id, final: true });
      }
      const held = await trial.claim({ workerId: 7, window: usual.maxWindow });
      // On a slow machine the window may have passed.
      const isOpen = async () => (await trial.registry.ping()).clock + usual.maxWindow / 2 < held.grant.until;
      if (await isOpen()) await refuse("WORKER_ID_HELD", "beside a holder");
      await trial.released(held);
      if (await isOpen()) await refuse("WORKER_ID_HELD", "beside a worker ID that rests");
      await trial.passed(held.grant.until);
      await trial.pin(9);
      await refuse("WORKER_ID_HELD", "beside a pin");
      await trial.unpin(9);
      await dropped(trial, id, usual);
    },
    "drops",
  ),

  checkNew(
    "a window that was given back ahead of the clock is in the way of a drop",
    async (trial) => {
      const id = await made(trial, usual);
      const held = await trial.claim({ workerId: 7, window: 100, clock: trial.now() + 3000 });
      const { until } = held.grant;
      await trial.released(held, { until });
      if ((await trial.registry.ping()).clock + 1000 < until) {
        await refuses("WORKER_ID_HELD", "a drop", drop(trial, { id }));
      }
      await trial.passed(until);
      await dropped(trial, id, usual);
    },
    "drops",
  ),

  checkNew(
    "a namespace in quarantine is not dropped",
    async (trial) => {
      const id = await made(trial);
      await trial.crashed();
      const grantsFrom = await dropped(trial, id);
      const { id: next = "" } = await trial.init(brief);
      await refuses("QUARANTINE", "a drop", drop(trial, { id: next }));
      await trial.passed(grantsFrom);
      await dropped(trial, next);
    },
    "drops",
  ),

  checkNew(
    "a namespace that is made where one was dropped grants later times and higher fences, after a quarantine",
    async (trial) => {
      const id = await made(trial);
      // A holder whose clock is ahead, and one that gave back what the next one could continue.
      const ahead = await trial.claim({ workerId: 7, window: brief.maxWindow, clock: trial.now() + 600 });
      const given = await trial.claim({ workerId: 8, window: brief.maxWindow });
      await trial.released(given, { until: given.grant.from, recents: recentsFrom(given.grant.from) });
      await trial.passed(ahead.grant.until);
      const before = await known(trial);
      const grantsFrom = await dropped(trial, id);
      ensure(grantsFrom > ahead.grant.until, "a later time than each window's end", grantsFrom);

      await refuses("CONFIG_INVALID", "`new`", trial.init({ ...brief, new: true }));
      const info = await trial.init(brief);
      ensure(info.id !== undefined && info.id !== id, "another id", info);
      const numberOf = ({ era = "" }: NamespaceInfo): number => Number.parseInt(era, 10);
      ensure(numberOf(info) > numberOf(before), "a later era", [info, before]);
      equal([info.quarantineUntil, info.quarantineEnd], [grantsFrom, grantsFrom], "its quarantine");
      await refuses("QUARANTINE", "a claim", trial.ask({ window: short }));
      await trial.passed(grantsFrom);
      for (const workerId of [7, 8]) {
        // The same claim as before, and one by a clock that was set back.
        const request = workerId === 7 ? { token: ahead.request.token } : { clock: trial.now() - 600 };
        const { grant } = await trial.claim({ workerId, window: short, ...request });
        between(grant.from, grantsFrom, grantsFrom + long, "`from`");
        between(grant.fence, grantsFrom + 1, grantsFrom + 1, "the fence");
        equal([grant.recents, grant.rollback], [undefined, undefined], "what is left of the holder before");
      }
    },
    "drops",
  ),

  checkNew(
    "late requests of a dropped namespace change nothing, before and after one of its name is made",
    async (trial) => {
      const id = await made(trial);
      const given = await trial.claim({ workerId: 8, window: short });
      await trial.released(given);
      const held = await trial.crashed();
      await trial.passed(given.grant.until);
      const grantsFrom = await dropped(trial, id);
      await trial.passed(grantsFrom);
      await askLate(trial, held, given, "after the drop");
      equal(await trial.describe(), undefined, "what is known of the namespace");
      await trial.init(brief);
      const info = await known(trial);
      const next = await trial.claim({ workerId: 7, window: short, holder: on("beta") });
      equal(info.quarantineEnd, grantsFrom, "the end of the quarantine");
      await askLate(trial, held, given, "beside a later claim");
      await trial.claim({ workerId: 9, window: short, recall: held.grant.receipt });
      const { quarantineUntil: _, ...fixed } = info;
      equal(await known(trial), fixed, "what is known of the namespace");
      await trial.renewed(next, { window: short });
      // An operator's request that was repeated on its way.
      await trial.passed((await trial.record(7)).until);
      await trial.passed((await trial.record(9)).until);
      await refuses("CONFIG_INVALID", "a late repeat of the drop", drop(trial, { id }));
      equal((await trial.record(7)).fence, next.key.fence, "the fence of worker 7");
    },
    "drops",
    "receipts",
  ),

  checkNew(
    "where a namespace was dropped that was used, another layout is LAYOUT_MISMATCH",
    async (trial) => {
      const id = await made(trial, usual);
      await trial.crashed();
      await dropped(trial, id, usual);
      await refuses("LAYOUT_MISMATCH", "`init` with another layout", trial.init({ ...usual, layout: otherLayout }));
      equal((await trial.init(brief)).layout, layout, "the layout");
    },
    "drops",
  ),

  checkNew(
    "the windows granted for a worker ID never overlap, also where a namespace is dropped beside claims and renewals and made again",
    async (trial) => {
      /** Each claim's window as it was answered last. */
      const windows = new Map<string, ClaimedWindow>();
      const note = (token: string, window: ClaimedWindow): void => void windows.set(`${token}/${window.fence}`, window);
      await made(trial);
      for (let round = 0; round < 2; round++) {
        const held = new Map<number, GrantedClaim>();
        let grantsFrom: number | undefined;
        for (let batch = 0; batch < mostBatches && grantsFrom === undefined; batch++) {
          const { id = "" } = (await trial.describe()) ?? {};
          const requests = [0, 1, 2].map(async (workerId) => {
            const claim = held.get(workerId);
            if (claim === undefined || (batch + workerId) % 3 === 0) {
              const next = await trial.tryClaim({
                workerId,
                window: short,
                holder: on(`host-${workerId}`),
                limits: brief,
              });
              if (next !== undefined) held.set(workerId, next);
              if (next !== undefined) note(next.key.token, { ...next.grant });
              return;
            }
            // Its window has passed: a renewal opens it again.
            const answer = await trial.renew(claim, { window: short });
            if (answer.outcome === "renewed") note(claim.key.token, { ...claim.grant, ...answer });
          });
          const order = drop(trial, { id }).then((answer) => (grantsFrom = answer.grantsFrom ?? 0));
          const all = await Promise.allSettled([...requests, order]);
          for (const each of all) {
            if (each.status === "rejected") ensure(isSnowleaseError(each.reason), "a SnowleaseError", each.reason);
          }
          await trial.pause(short + 10);
        }
        if (grantsFrom === undefined) {
          // Nothing raced with this one.
          await trial.pause(2 * short);
          grantsFrom = await dropped(trial, (await known(trial)).id ?? "");
        }
        await trial.init(brief);
        /** Claims a worker ID; returns what refused it, if anything did. */
        const refusalOf = async (workerId: number): Promise<unknown> => {
          try {
            const claim = await trial.tryClaim({ workerId, window: short, limits: brief });
            if (claim !== undefined) note(claim.key.token, claim.grant);
            return claim === undefined ? "another holder" : undefined;
          } catch (error) {
            ensure(isSnowleaseError(error), "a SnowleaseError", error);
            return error;
          }
        };
        // A registry grants none of these.
        await Promise.all([0, 1, 2].map(refusalOf));
        await trial.passed(grantsFrom);
        for (const workerId of [0, 1, 2]) {
          let refused = await refusalOf(workerId);
          // On a busy machine a claim may come late, and is refused for its clock.
          for (let again = 0; refused !== undefined && again < 20; again++) {
            await trial.pause(short);
            refused = await refusalOf(workerId);
          }
          equal(refused, undefined, `what refused worker ${workerId} after the quarantine`);
        }
        await trial.pause(2 * short);
      }
      for (const [name, { workerId, from, until }] of windows) {
        for (const [other, each] of windows) {
          const overlaps = name !== other && each.workerId === workerId && each.from < until && from < each.until;
          ensure(!overlaps, "windows that do not overlap", [workerId, from, until, each]);
        }
      }
    },
    "drops",
  ),

  checkNew(
    "to drop an unknown namespace is NOT_FOUND",
    async (trial) => {
      await refuses("NOT_FOUND", "the request", drop(trial, { id: newToken() }));
      equal(await trial.describe(), undefined, "what is known of the namespace");
    },
    "drops",
  ),

  checkNew(
    "of a trial's namespace nothing stays after a final drop, which may be repeated",
    async (trial) => {
      await made(trial);
      const namespace = isTrialName(trial.namespace)
        ? `${trial.namespace}_b`
        : `${trialPrefix}${newToken().slice(0, 8)}`;
      const word = { namespace, ...brief, new: true };
      await trial.init(word);
      await trial.claim({ namespace, workerId: 7, window: brief.maxWindow });
      await trial.registry.pin(namespace, 8, "kept");
      for (let i = 0; i < 2; i++) {
        equal(await drop(trial, { namespace, id: "", final: true }), {}, "the answer");
        equal(await trial.registry.describe(namespace), undefined, "what is known of the namespace");
        equal(await trial.registry.workers(namespace), [], "its worker IDs");
      }
      const { quarantineEnd } = await trial.init(word);
      equal(quarantineEnd, undefined, "a quarantine that is recorded");
      await drop(trial, { namespace, id: "", final: true });
      await trial.claim({ workerId: 7, window: short });
    },
    "drops",
  ),
];
