import { SnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { isSealed, type NamespaceState, openedEra, removedEra } from "../../rule/era.ts";
import { checkLayout, checkLimits } from "../../rule/limits.ts";
import { checkNew } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import { grantOf } from "../../rule/pool.ts";
import { readReceipt } from "../../rule/receipt.ts";
import { checkSealed, lastUse, rememberedEra, sealedEra } from "../../rule/removal.ts";
import {
  decideUnknownRelease,
  decideUnknownRenewal,
  eraToNote,
  type UnknownNamespace,
} from "../../rule/unknown-namespace.ts";
import type { ClaimRequest, Lost, Pin, Registry, RenewRequest, WorkerRecord } from "../../rule/registry.ts";
import { storedToken } from "../../rule/token.ts";
import { decideRelease, decideRenewal, isInQuarantine, recalledEra, type Verdict } from "../../rule/verdict.ts";
import { checkClaim, forced, forceRefusal, noNamespace } from "../../rule/window.ts";
import { eraMark, newNamespace, separated } from "../../rule/new-namespace.ts";
import {
  checkEndable,
  checkEra,
  checkQuarantine,
  checkUnsealed,
  infoOf,
  lostNamespace,
  quarantineError,
  unknownNamespace,
} from "../../rule/quarantine.ts";
import { Changed } from "../engine/operate.ts";
import type { CompareAndSetStore, StoreAttempt, VersionedRecord } from "./store.ts";

/** Worker IDs that one answer lists at most. */
const longestPage = 10_000;

const repeatable = { repeatable: true };
const once = { repeatable: false };
const lost: Lost = { outcome: "lost" };

/** The registry in a store with compare-and-set: every operation, but for how the store reads and writes. */
export function compareAndSetRegistry<Row extends VersionedRecord>(store: CompareAndSetStore<Row>): Registry {
  const { kind, title } = store;

  /** The request as it stands now. With the clock of its beginning, the caller's clock would seem to be turned back. */
  function presentRequest<Asked extends Pick<RenewRequest, "token" | "clock">>(asked: Asked, waited: number): Asked {
    return { ...asked, token: storedToken(asked.token), clock: asked.clock + waited };
  }

  const registry: Registry = {
    kind,

    async init(request) {
      const { namespace } = request;
      const info = await store.attempt(namespace, repeatable, async (attempt) => {
        const found = await attempt.create(request.layout, request);
        checkLayout(namespace, request.layout, found.info);
        checkLimits(namespace, request, found.info);
        checkUnsealed(found, namespace, title);
        return infoOf(found);
      });
      await checkNew(registry, request, info);
      return info;
    },

    describe: (namespace) =>
      store.attempt(namespace, repeatable, async (attempt) => {
        const state = await attempt.look();
        return state && infoOf(state);
      }),

    receiptKey: (namespace) =>
      store.attempt(namespace, repeatable, async (attempt) => (await attempt.look())?.receiptKey),

    claim: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = { ...presentRequest(asked, attempt.waited), holder: store.labelOf(asked.holder) };
        const { namespace, layout, limits = {} } = request;
        const claim = await attempt.claim(request);
        const { state, unknown, clock } = claim;
        if (state === undefined) {
          await noteRecallOfUnknown(attempt, unknown, request);
          checkClaim(request, clock, newNamespace(layout, limits, clock, unknown?.noted).info);
          await attempt.create(layout, limits);
          throw new Changed("the namespace was created");
        }
        await noteRecall(attempt, state, request);
        checkQuarantine(state, namespace, title);
        checkLimits(namespace, limits, state.info);
        checkClaim(request, clock, state.info);
        const { answer, store: record } = await claim.decide();
        if (answer.outcome !== "granted" || record === undefined) return answer;
        await claim.commit(record);
        return grantOf(state, record, answer.rollback);
      }),

    renew: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = presentRequest(asked, attempt.waited);
        const { workerId } = request;
        const { state, unknown, records } = await attempt.snapshot("renew", [workerId]);
        const [before] = records;
        if (state === undefined) {
          if (unknown === undefined) return withoutPlace(request);
          return noted(attempt, unknown, decideUnknownRenewal(unknown, request, eraMark));
        }
        const verdict = decideRenewal(state, before?.record, request, eraMark);
        const decision = await decided(attempt, verdict, { row: before, workerId });
        const isTaken = decision.outcome !== "lost" && before !== undefined && !store.isHeld(before);
        const answer = isTaken ? lost : decision;
        if (!isTaken) await put(attempt, before, verdict);
        return answer;
      }),

    release: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = presentRequest(asked, attempt.waited);
        const { workerId } = request;
        const { state, unknown, records } = await attempt.snapshot("release", [workerId]);
        const [before] = records;
        if (state === undefined) {
          if (unknown === undefined) return lostNamespace(request);
          return noted(attempt, unknown, decideUnknownRelease(unknown, request, eraMark));
        }
        const verdict = decideRelease(state, before?.record, request, eraMark);
        const answer = await decided(attempt, verdict, { row: before, workerId });
        await put(attempt, before, verdict);
        return answer;
      }),

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, longestPage);
      const found: WorkerRecord[] = [];
      if (most === 0) return found;
      for await (const page of store.pages(namespace, { after, state })) {
        found.push(...page.filter((record) => state === undefined || record.state === state));
        if (found.length >= most) break;
      }
      return found.slice(0, most);
    },

    worker: (namespace, workerId) => store.worker(namespace, workerId),
    history: (namespace, workerId, range) => store.history(namespace, workerId, range),

    forceRelease: (request) =>
      store.attempt(request.namespace, once, async (attempt) => {
        const { workerId, resetWindow = false } = request;
        const { state, records } = await attempt.snapshot("force", [workerId]);
        const [before] = records;
        const refusal = forceRefusal(before?.record, request, state?.clock ?? 0);
        if (refusal !== undefined || state === undefined || before === undefined)
          return refusal ?? { outcome: "absent" };
        const after = forced(before.record, state.clock, resetWindow);
        await attempt.end({ before, after }, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    unpin: async (namespace, workerId) => (await unpinAll(namespace, [workerId])).length > 0,
    pinAll,
    unpinAll,

    endQuarantine: (request) =>
      store.attempt(request.namespace, repeatable, async (attempt) => {
        const state = await attempt.look();
        if (state === undefined) throw noNamespace(request.namespace);
        checkEra(request, state.era);
        if (state.clock >= state.opensAt) return infoOf(state);
        checkEndable(request.namespace, state);
        const opened = openedEra(state);
        await attempt.putEra(opened);
        return infoOf({ ...state, ...opened });
      }),

    separate(request) {
      /** What an attempt with an unknown answer may have stored. */
      let sent: string | undefined;
      return store.attempt(request.namespace, repeatable, async (attempt) => {
        const state = await attempt.look();
        if (state === undefined) throw noNamespace(request.namespace);
        if (sent !== undefined && state.info.id === sent) return infoOf(state);
        checkEra(request, state.era);
        checkUnsealed(state, request.namespace, title);
        const made = separated(state);
        sent = made.info.id;
        await attempt.replace(made);
        return infoOf({ ...state, ...made.era, info: made.info });
      });
    },

    async remove({ namespace, era, forget = false }) {
      /** The id of what an attempt with an unknown answer may have sealed. */
      let sent: string | undefined;
      const id = await store.attempt(namespace, repeatable, async (attempt) => {
        const state = await attempt.look();
        if (state === undefined) throw noNamespace(namespace);
        const isSent = state.info.id === sent && isSealed(state);
        if (!isSent) checkEra({ namespace, era }, state.era);
        if (!isSealed(state)) {
          sent = state.info.id;
          await attempt.putEra(sealedEra(state, eraMark));
        }
        return state.info.id;
      });
      const last = await lastUse(registry, namespace);
      for (let isDone = false; !isDone;) {
        isDone = await store.attempt(namespace, repeatable, async (attempt) => {
          const state = await attempt.look();
          // An attempt with an unknown answer removed it, or another operator; one of its name that was made since is another one.
          if (state === undefined || state.info.id !== id) return true;
          checkSealed(namespace, state);
          const remembered = rememberedEra(state, last);
          if (remembered === undefined) return attempt.erase(forget ? undefined : removedEra(state, eraMark));
          await attempt.putEra(remembered);
          return false;
        });
      }
    },

    prune: (namespace, before) => store.prune(namespace, before),
    rehearse: (namespace) => store.rehearse(namespace),
    scope: (namespace) => store.scope(namespace),
    ping: () => store.ping(),
    close: () => store.close(),
  };
  return registry;

  /** Notes that the namespace was forgotten, where a holder proves it. */
  async function noted(
    attempt: StoreAttempt<Row>,
    unknown: UnknownNamespace,
    { begins = unknown.noted, answer }: Verdict<Lost>,
  ): Promise<Lost> {
    if (isInQuarantine(answer) || answer.reason === "forgotten") {
      // Written even where it stays: a read that lags does not know the namespace.
      if (begins !== undefined) await attempt.note(begins);
    }
    if (isInQuarantine(answer)) throw quarantineError(title, answer);
    return answer;
  }

  /** The same where the claimer remembers a lease. */
  async function noteRecallOfUnknown(
    attempt: StoreAttempt<Row>,
    unknown: UnknownNamespace | undefined,
    { recall: text }: ClaimRequest,
  ): Promise<void> {
    const recall = readReceipt(text);
    if (recall === undefined || unknown === undefined) return;
    const begins = eraToNote(unknown, recall, eraMark);
    if (begins === undefined) return;
    await attempt.note(begins);
    throw new Changed("a quarantine was noted");
  }

  /** The answer to a renewal in a namespace that does not exist, where nothing can be noted. */
  function withoutPlace(request: RenewRequest): Lost {
    const answer = unknownNamespace(title, request);
    if (answer instanceof SnowleaseError) throw answer;
    return answer;
  }

  /** Begins a quarantine where the claimer proves that one has to begin; the claim is then decided anew. */
  async function noteRecall(
    attempt: StoreAttempt<Row>,
    begun: NamespaceState,
    { recall: text }: ClaimRequest,
  ): Promise<void> {
    const recall = readReceipt(text);
    if (recall === undefined) return;
    const { workerId } = recall;
    // Not the namespace that the claim began with: another quarantine may have begun since.
    const { state, records } = await attempt.snapshot("claim", [workerId]);
    if (state === undefined || state.era !== begun.era || state.opensAt !== begun.opensAt) {
      throw new Changed("another era began");
    }
    const [row] = records;
    const begins = recalledEra(state, row?.record, recall, eraMark);
    if (begins === undefined) return;
    await attempt.putEra(begins, { row, workerId });
    throw new Changed("a quarantine began");
  }

  /** Begins a quarantine where the holder proves that one has to begin; what would change the record is then decided anew. */
  async function decided<Answer extends { readonly outcome: string }>(
    attempt: StoreAttempt<Row>,
    { begins, answer, record }: Verdict<Answer | Lost>,
    before: { readonly row: Row | undefined; readonly workerId: number },
  ): Promise<Answer | Lost> {
    if (begins !== undefined) {
      await attempt.putEra(begins, before);
      if (record !== undefined) throw new Changed("a quarantine began");
    }
    if (isInQuarantine(answer)) throw quarantineError(title, answer);
    // Where an era began, that write has shown the same.
    const isForgotten = answer.outcome === "lost" && (answer as Lost).reason === "forgotten";
    if (isForgotten && begins === undefined) await attempt.confirm(before);
    return answer;
  }

  /** Writes the record of a verdict. */
  async function put(
    attempt: StoreAttempt<Row>,
    before: Row | undefined,
    { record: after, end }: Verdict<unknown>,
  ): Promise<void> {
    if (before === undefined || after === undefined) return;
    if (end === undefined) await attempt.renew({ before, after });
    else await attempt.end({ before, after }, end);
  }

  function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    return store.attempt(namespace, repeatable, async (attempt) => {
      const workerIds = pins.map(({ workerId }) => workerId);
      const { state, records } = await attempt.snapshot("pin", workerIds);
      if (state === undefined) throw noNamespace(namespace);
      checkUnsealed(state, namespace, title);
      const highest = Layout.parse(state.info.layout).pool.last;
      for (const pin of pins) checkPin(pin, highest, state.clock, state.info);
      const changes = pins.map(({ workerId, reason, owner }, i) => {
        const before = records[i];
        return { before, after: pinnedRecord(before?.record ?? unusedRecord(workerId), reason, owner) };
      });
      await attempt.pin(changes);
    });
  }

  function unpinAll(namespace: string, workerIds: readonly number[]): Promise<readonly number[]> {
    return store.attempt(namespace, once, async (attempt) => {
      const { records } = await attempt.snapshot("unpin", workerIds);
      const changes = records.flatMap((before) => {
        if (before?.record.pinned === undefined) return [];
        return [{ before, after: before.record.fence === 0 ? undefined : unpinnedRecord(before.record) }];
      });
      if (changes.length > 0) await attempt.unpin(changes);
      return changes.map(({ before }) => before.record.workerId);
    });
  }
}
