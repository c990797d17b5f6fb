import { setImmediate as turn } from "node:timers/promises";
import { Layout } from "../../id/layout.ts";
import { isSealed, type NamespaceState, openedEra, removedEra } from "../../rule/era.ts";
import { checkNew, checkUnnoted } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import { decideClaim, grantOf } from "../../rule/pool.ts";
import type { ClaimKey, ClaimRequest, Grant, Lost, Pin, Refusal, Registry } from "../../rule/registry.ts";
import { checkLayout, checkLimits, type NamespaceLimits } from "../../rule/limits.ts";
import { checkSealed, lastUse, rememberedEra, sealedEra } from "../../rule/removal.ts";
import { storedToken } from "../../rule/token.ts";
import { admitClaim, decideRelease, decideRenewal, type Verdict } from "../../rule/verdict.ts";
import { checkClaim, forced, forceRefusal, noNamespace, shownRecord, type Stored } from "../../rule/window.ts";
import { SnowleaseError } from "../../id/errors.ts";
import { eraMark, newNamespace, separated } from "../../rule/new-namespace.ts";
import {
  answerOrError,
  checkEndable,
  checkEra,
  checkUnsealed,
  infoOf,
  quarantineError,
} from "../../rule/quarantine.ts";
import { decideUnknownRelease, decideUnknownRenewal, type UnknownNamespace } from "../../rule/unknown-namespace.ts";
import type { ListPart, Step, StepNamespace, StepStore } from "./store.ts";

/** Rows that one answer lists at most. */
const longestPage = 10_000;

/** The operations of a registry whose store runs each of them, or each part of a long one, as one atomic step. */
export function operationsInOneStep({
  title,
  read,
  write,
}: StepStore): Omit<Registry, "kind" | "scope" | "ping" | "close"> {
  const operations: ReturnType<typeof operationsInOneStep> = {
    async init(request) {
      const { namespace, layout } = request;
      const info = await write((step) => {
        if (request.new === true) checkUnnoted(namespace, step.noted(namespace)?.quarantineEnd);
        const space = step.find(namespace) ?? created(step, namespace, layout, request);
        checkLayout(namespace, layout, space.info);
        checkLimits(namespace, request, space.info);
        checkUnsealed(stateOf(step, space), namespace, title);
        return infoOf(stateOf(step, space));
      });
      await checkNew(operations, request, info);
      return info;
    },

    describe: (namespace) =>
      read((step) => {
        const space = step.find(namespace);
        return space && infoOf(stateOf(step, space));
      }),

    receiptKey: (namespace) => read((step) => step.find(namespace)?.receiptKey),

    claim: (request) => answered(write((step) => claimInStep(step, request, title))),

    renew: (request) =>
      answered(
        write((step) => {
          const asked = atItsTurn(request, step);
          const space = step.find(asked.namespace);
          if (space === undefined)
            return noted(step, asked, decideUnknownRenewal(unknownIn(step, asked), asked, eraMark));
          space.checkClock?.();
          const before = space.byId(asked.workerId);
          return decided(step, space, before, decideRenewal(stateOf(step, space), before, asked, eraMark));
        }),
      ),

    release: (request) =>
      answered(
        write((step) => {
          const asked = atItsTurn(request, step);
          const space = step.find(asked.namespace);
          if (space === undefined)
            return noted(step, asked, decideUnknownRelease(unknownIn(step, asked), asked, eraMark));
          const before = space.byId(asked.workerId);
          return decided(step, space, before, decideRelease(stateOf(step, space), before, asked, eraMark));
        }),
      ),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      // No program takes worker IDs here without keeping a window.
      if (state === "foreign") return [];
      return partByPart(after, limit, (next, most) =>
        read((step) => {
          const part = step.find(namespace)?.list(state, next, most, step.now);
          return part && { ...part, rows: part.rows.map((record) => shownRecord(record, step.now)) };
        }),
      );
    },

    worker: (namespace, workerId) =>
      read((step) => {
        const record = step.find(namespace)?.byId(workerId);
        return record && shownRecord(record, step.now);
      }),

    async history(namespace, workerId, range = {}) {
      const { from = Number.MIN_SAFE_INTEGER, until = Number.MAX_SAFE_INTEGER, limit = 1000 } = range;
      const newestFirst = await partByPart(Number.MAX_SAFE_INTEGER, limit, (before, most) =>
        read((step) => step.find(namespace)?.claims(workerId, { from, until }, before, most)),
      );
      return newestFirst.toReversed();
    },

    forceRelease: (request) =>
      write((step) => {
        const { namespace, workerId, resetWindow = false } = request;
        const space = step.find(namespace);
        const before = space?.byId(workerId);
        const refusal = forceRefusal(before, request, step.now);
        if (refusal !== undefined) return refusal;
        if (space === undefined || before === undefined) return { outcome: "absent" };
        const after = forced(before, step.now, resetWindow);
        space.put(after, before);
        space.noteEnd(after, step.now, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    pinAll,
    unpin: async (namespace, workerId) => (await unpinAll(namespace, [workerId])).length > 0,
    unpinAll,

    endQuarantine: (request) =>
      write((step) => {
        const space = present(step, request.namespace);
        const state = stateOf(step, space);
        checkEra(request, state.era);
        if (step.now < state.opensAt) {
          checkEndable(request.namespace, state);
          space.beginEra(openedEra(state));
        }
        return infoOf(stateOf(step, space));
      }),

    separate: (request) =>
      write((step) => {
        const space = present(step, request.namespace);
        const state = stateOf(step, space);
        checkEra(request, state.era);
        checkUnsealed(state, request.namespace, title);
        const made = separated(state);
        space.replace(made);
        return infoOf({ ...state, ...made.era, info: made.info });
      }),

    async remove({ namespace, era, forget = false }) {
      const id = await write((step) => {
        const space = present(step, namespace);
        const state = stateOf(step, space);
        checkEra({ namespace, era }, state.era);
        if (!isSealed(state)) space.beginEra(sealedEra(state, eraMark));
        return space.info.id;
      });
      const last = await lastUse(operations, namespace);
      for (let isDone = false; !isDone;) {
        isDone = await write((step) => {
          const space = step.find(namespace);
          // Another operator removed it meanwhile; one of its name that was made since is another one.
          if (space === undefined || space.info.id !== id) return true;
          checkSealed(namespace, space.era);
          const remembered = rememberedEra(space.era, last);
          if (remembered !== undefined) space.beginEra(remembered);
          if (!space.erase()) return false;
          step.remove(namespace);
          if (!forget) step.note(namespace, removedEra(space.era, eraMark));
          return true;
        });
        await turn();
      }
    },

    async prune(namespace, before) {
      for (let sum = 0; ;) {
        const { pruned, isDone } = await write((step) => present(step, namespace).prune(before));
        sum += pruned;
        if (isDone) return sum;
      }
    },
  };
  return operations;

  /** Begins a quarantine where the holder proves that one has to begin. */
  function decided<Answer extends { readonly outcome: string }>(
    step: Step,
    space: StepNamespace,
    before: Stored | undefined,
    { begins, answer, record, end }: Verdict<Answer>,
  ): Answer | SnowleaseError {
    if (begins !== undefined) space.beginEra(begins);
    if (record !== undefined) {
      space.put(record, before);
      if (end !== undefined) space.noteEnd(record, step.now, end);
    }
    return answerOrError(title, answer);
  }

  /** Notes that a namespace was forgotten, where a holder proves it. */
  function noted(step: Step, { namespace }: ClaimKey, { begins, answer }: Verdict<Lost>): Lost | SnowleaseError {
    if (begins !== undefined) step.note(namespace, begins);
    return answerOrError(title, answer);
  }

  function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    return write((step) => {
      const space = present(step, namespace);
      checkUnsealed(stateOf(step, space), namespace, title);
      const highest = Layout.parse(space.info.layout).pool.last;
      const changes = pins.map((pin) => {
        const { workerId, reason, owner } = pin;
        checkPin(pin, highest, step.now, space.info);
        const before = space.byId(workerId);
        return { before, after: pinnedRecord(before ?? unusedRecord(workerId), reason, owner) };
      });
      for (const { before, after } of changes) space.put(after, before);
    });
  }

  function unpinAll(namespace: string, workerIds: readonly number[]): Promise<readonly number[]> {
    return write((step) => {
      const space = step.find(namespace);
      return workerIds.filter((workerId) => {
        const before = space?.byId(workerId);
        if (space === undefined || before?.pinned === undefined) return false;
        if (before.fence === 0) space.forget(workerId);
        else space.put(unpinnedRecord(before), before);
        return true;
      });
    });
  }
}

/** A claim, for a store that has more to do in its step. An error that comes back leaves the changes of the step in force. */
export function claimInStep(step: Step, request: ClaimRequest, title: string): Grant | Refusal | Lost | SnowleaseError {
  const { now } = step;
  const asked = atItsTurn(request, step);
  const { namespace, layout, limits = {}, holder } = asked;
  let space = step.find(namespace);
  if (space === undefined) {
    // In the quarantine of an era that is noted, nothing else would refuse it. What a claimer remembers counts whatever it asks.
    if (asked.recall === undefined) checkClaim(asked, now, newNamespace(layout, limits, now, undefined).info);
    space = created(step, namespace, layout, limits);
  }
  space.checkClock?.();
  const state = stateOf(step, space);
  const { begins, refusal } = admitClaim(space, asked, state, eraMark);
  if (begins !== undefined) space.beginEra(begins);
  if (refusal !== undefined) return quarantineError(title, refusal);
  space.prepare(asked);
  const { answer, store, before } = decideClaim(space, asked, state);
  if (answer.outcome !== "granted" || store === undefined) return answer;
  const record = notBefore(space.earliest ?? 0, store);
  const { workerId, fence, from, until, recents } = record;
  space.put(record, before);
  if (before !== undefined) space.noteEnd(before, now, "taken-over");
  space.noteClaim({ workerId, fence, from, until, continuedFrom: recents?.from, holder, claimedAt: now }, before);
  return grantOf(state, record, answer.rollback);
}

/** Throws the error that a step answered with. */
async function answered<Answer>(step: Promise<Answer | SnowleaseError>): Promise<Answer> {
  const answer = await step;
  if (answer instanceof SnowleaseError) throw answer;
  return answer;
}

function created(step: Step, namespace: string, layout: string, limits: Partial<NamespaceLimits>): StepNamespace {
  return step.create(namespace, newNamespace(layout, limits, step.now, step.noted(namespace)));
}

function unknownIn(step: Step, { namespace }: ClaimKey): UnknownNamespace {
  return { clock: step.now, noted: step.noted(namespace) };
}

function stateOf({ now }: Step, { info, era }: StepNamespace): NamespaceState {
  const { era: name, quarantineEnd, opensAt } = era;
  return { era: name, quarantineEnd, opensAt, info, clock: now };
}

/** The request as it stands now. The holder's clock went on while the operation waited; otherwise it would look set back. */
function atItsTurn<Request extends { readonly clock: number; readonly token: string }>(
  request: Request,
  { waited }: Step,
): Request {
  return { ...request, token: storedToken(request.token), clock: request.clock + waited };
}

/** The record of a claim, with a window that begins at `from` or later. */
function notBefore(from: number, record: Stored): Stored {
  return record.from >= from ? record : { ...record, from, knownFrom: record.recents?.from ?? from };
}

/** @throws SnowleaseError NOT_FOUND */
function present(step: Step, namespace: string): StepNamespace {
  const space = step.find(namespace);
  if (space === undefined) throw noNamespace(namespace);
  return space;
}

/** Reads a list part by part, each in a step of its own. Between two of them the event loop has its turn. */
async function partByPart<ListRow>(
  start: number,
  limit: number,
  read: (next: number, limit: number) => Promise<ListPart<ListRow> | undefined>,
): Promise<readonly ListRow[]> {
  const most = Math.min(limit, longestPage);
  const found: ListRow[] = [];
  for (let next: number | undefined = start; next !== undefined && found.length < most;) {
    if (next !== start) await turn();
    const part: ListPart<ListRow> | undefined = await read(next, most - found.length);
    found.push(...(part?.rows ?? []));
    next = part?.next;
  }
  return found;
}
