import { SnowleaseError, timeText } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { checkpointIn, claimIn, renewalIn, usageIn } from "../../rule/era.ts";
import { checkNew, notNew } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord, unpinnedRecord, unusedRecord } from "../../rule/pin.ts";
import type { Lost, Pin, Registry, RenewRequest, WorkerRecord } from "../../rule/registry.ts";
import {
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  type NamespaceInfo,
  newNamespace,
} from "../../rule/limits.ts";
import { checkClaim, forced, forceRefusal, grantOf, noNamespace, released, renewed } from "../../rule/window.ts";
import { Changed, type CompareAndSetStore, type NamespaceState, Unanswered, type VersionedRecord } from "./store.ts";

/** Worker IDs that one answer lists at most. */
const longestPage = 10_000;

const repeatable = { repeatable: true };
const once = { repeatable: false };
const lost: Lost = { outcome: "lost" };

/** The registry in a store with compare-and-set: every operation, but for how the store reads and writes. */
export function compareAndSetRegistry<Row extends VersionedRecord>(store: CompareAndSetStore<Row>): Registry {
  const { kind, title, tokenOf = (token) => token, labelOf = (holder) => holder, isHeld = () => true } = store;

  /** The request as it stands now. With the clock of its beginning, the caller's clock would seem to be turned back. */
  function presentRequest<Asked extends Pick<RenewRequest, "token" | "clock">>(asked: Asked, waited: number): Asked {
    return { ...asked, token: tokenOf(asked.token), clock: asked.clock + waited };
  }

  const registry: Registry = {
    kind,

    async init(request) {
      const { namespace } = request;
      const state = await store.attempt(namespace, repeatable, async (attempt) => {
        const found = await attempt.create(newNamespace(request.layout, request));
        checkLayout(namespace, request.layout, found.info);
        checkLimits(namespace, request, found.info);
        return found;
      });
      if (request.new === true && state.quarantineEnd > 0) {
        throw notNew(namespace, `a quarantine of it is recorded, until ${timeText(state.quarantineEnd)}`);
      }
      await checkNew(registry, request);
      return infoOf(state);
    },

    describe: (namespace) =>
      store.attempt(namespace, repeatable, async (attempt) => {
        const state = await attempt.look();
        return state && infoOf(state);
      }),

    claim: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = { ...presentRequest(asked, attempt.waited), holder: labelOf(asked.holder) };
        const { namespace, layout, limits = {} } = request;
        const claim = await attempt.claim(request);
        const { state, clock } = claim;
        if (state !== undefined) checkQuarantine(state, title);
        const info = state?.info ?? newNamespace(layout, limits);
        checkLimits(namespace, limits, info);
        checkClaim(request, clock, info);
        if (state === undefined) {
          await attempt.create(info);
          throw new Changed("the namespace was created");
        }
        const { answer, store: record, before } = await claim.decide();
        if (answer.outcome !== "granted" || record === undefined) return answer;
        const after = claimIn(state, record, before);
        await claim.commit(after);
        return grantOf(after, clock, answer.rollback);
      }),

    renew: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = presentRequest(asked, attempt.waited);
        const { state, records } = await attempt.snapshot("renew", [request.workerId]);
        const [before] = records;
        if (state === undefined) return lost;
        checkQuarantine(state, title);
        const { info, clock } = state;
        checkWindow(request.window, info);
        checkSkew(request.clock, clock, info);
        if (before !== undefined && isHeld(before)) {
          const checkpoint = checkpointIn(state, request.checkpoint, before.record);
          const record = renewed(before.record, { ...request, checkpoint }, clock);
          if (record !== undefined) {
            const after = renewalIn(state, record, before.era);
            await attempt.renew({ before, after });
            return { outcome: "renewed", from: after.from, until: after.until, clock };
          }
        }
        await attempt.lost?.(request, before);
        return lost;
      }),

    release: (asked) =>
      store.attempt(asked.namespace, repeatable, async (attempt) => {
        const request = presentRequest(asked, attempt.waited);
        const { state, records } = await attempt.snapshot("release", [request.workerId]);
        const [before] = records;
        if (state === undefined) return lost;
        if (before !== undefined) {
          const used = usageIn(state, request.used, before.record, before.era);
          const after = released(before.record, { ...request, used }, state.clock);
          if (after !== undefined) {
            if (after !== before.record) await attempt.end({ before, after }, "released");
            return { outcome: "released" };
          }
        }
        await attempt.lost?.(request, before);
        return lost;
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
        const refusal = forceRefusal(before?.shown ?? before?.record, request, state?.clock ?? 0);
        if (refusal !== undefined || state === undefined || before === undefined)
          return refusal ?? { outcome: "absent" };
        const after = forced(before.record, state.clock, resetWindow);
        await attempt.end({ before, after }, resetWindow ? "reset" : "forced");
        return { outcome: "released", until: after.until };
      }),

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    unpin: async (namespace, workerId) => (await unpinAll(namespace, [workerId])).length > 0,
    ...(store.pinsTogether && { pinAll, unpinAll }),
    prune: (namespace, before) => store.prune(namespace, before),
    rehearse: (namespace) => store.rehearse(namespace),
    ping: () => store.ping(),
    close: () => store.close(),
  };
  return registry;

  function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    return store.attempt(namespace, repeatable, async (attempt) => {
      const workerIds = pins.map(({ workerId }) => workerId);
      const { state, records } = await attempt.snapshot("pin", workerIds);
      if (state === undefined) throw noNamespace(namespace);
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
    /** What an attempt with an unknown answer may have put back. */
    let unanswered: readonly number[] = [];
    return store.attempt(namespace, once, async (attempt) => {
      const { records } = await attempt.snapshot("unpin", workerIds);
      const changes = records.flatMap((before) => {
        if (before?.record.pinned === undefined) return [];
        return [{ before, after: before.record.fence === 0 ? undefined : unpinnedRecord(before.record) }];
      });
      if (changes.length === 0) return unanswered;
      const unpinned = changes.map(({ before }) => before.record.workerId);
      try {
        await attempt.unpin(changes);
      } catch (error) {
        unanswered = error instanceof Unanswered ? unpinned : [];
        throw error;
      }
      return unpinned;
    });
  }
}

/** What is fixed for a namespace, with its quarantine while that lasts. */
function infoOf({ info, clock, quarantineEnd }: NamespaceState): NamespaceInfo {
  return clock < quarantineEnd ? { ...info, quarantineUntil: quarantineEnd } : info;
}

/** @throws SnowleaseError QUARANTINE before its end. */
function checkQuarantine({ clock, quarantineEnd }: NamespaceState, title: string): void {
  if (clock >= quarantineEnd) return;
  const retryAfterMs = quarantineEnd - clock;
  throw new SnowleaseError(
    "QUARANTINE",
    `${title} is another server than the one that wrote last (promoted, moved or restored), and may have forgotten windows: nothing is granted for ${retryAfterMs} ms, until they have passed; wait.`,
    { retryAfterMs, until: quarantineEnd },
  );
}
