// A registry around another one: here it keeps a journal of what changed. Around any store that is your own, or one that has to be watched,
// counted or slowed down; and the proof that it still keeps the contract, as a list of checks for any test runner or none. A
// store of its own stands in own-registry.
//
//   npx tsx examples/journal.ts
import { setTimeout as sleep } from "node:timers/promises";
import type {
  Checkpoint,
  ClaimKey,
  ClaimRequest,
  EndQuarantineRequest,
  EraInfo,
  ForceReleased,
  ForceReleaseRequest,
  Grant,
  HistoryRange,
  HistoryRow,
  HolderLabel,
  InitRequest,
  BlocksRequest,
  BlocksTaken,
  LossReason,
  Lost,
  NamespaceInfo,
  NamespaceLimits,
  PinOwner,
  Pong,
  Recents,
  Refusal,
  Registry,
  Released,
  ReleaseRequest,
  RemoveRequest,
  Renewal,
  RenewRequest,
  SeparateRequest,
  Usage,
  WorkerRecord,
  WorkersPage,
  WorkerState,
} from "snowlease";
import {
  type Capability,
  conformance,
  type ConformanceCheck,
  type ConformanceResult,
  type ConformanceSubject,
  runCheck,
  runConformance,
} from "snowlease/conformance";
import { memoryRegistry } from "snowlease/testing";

/** One line for each thing that changed; never a token. */
type Journal = string[];

const nameOf = ({ namespace, workerId, fence }: ClaimKey): string => `${namespace}/${workerId}#${fence}`;
const placeOf = ({ host, pid }: HolderLabel): string => `${host}:${pid}`;
const usedOf = (used: Usage | undefined): string => (used === undefined ? "unknown" : `until ${used.until}`);
const sizeOf = (recents: Recents | undefined): string => `${recents?.bytes.length ?? 0} bytes of recents`;
const lossOf = ({ reason = "taken" }: Lost): LossReason => reason;
const reachOf = (checkpoint: Checkpoint | undefined): string => `up to ${checkpoint?.timestamp ?? "nowhere"}`;

function journaled(store: Registry, journal: Journal): Registry {
  return {
    kind: "journaled",

    async init(request: InitRequest): Promise<NamespaceInfo> {
      const info = await store.init(request);
      const { maxWindow, maxClockSkew }: NamespaceLimits = info;
      journal.push(`init ${request.namespace} ${maxWindow} ${maxClockSkew}`);
      return info;
    },

    async claim(request: ClaimRequest): Promise<Grant | Refusal | Lost> {
      const answer = await store.claim(request);
      const what =
        answer.outcome === "granted" ? `${answer.workerId}#${answer.fence}, ${sizeOf(answer.recents)}` : answer.outcome;
      journal.push(`claim ${request.namespace} ${placeOf(request.holder)}: ${what}`);
      return answer;
    },

    async renew(request: RenewRequest): Promise<Renewal | Lost> {
      const answer = await store.renew(request);
      const what = answer.outcome === "lost" ? `lost, ${lossOf(answer)}` : answer.outcome;
      journal.push(`renew ${nameOf(request)} ${reachOf(request.checkpoint)}: ${what}`);
      return answer;
    },

    async release(request: ReleaseRequest): Promise<Released | Lost> {
      const answer = await store.release(request);
      journal.push(`release ${nameOf(request)} ${usedOf(request.used)}: ${answer.outcome}`);
      return answer;
    },

    async forceRelease(request: ForceReleaseRequest): Promise<ForceReleased> {
      const answer = await store.forceRelease(request);
      journal.push(`force ${request.namespace}/${request.workerId}: ${answer.outcome}`);
      return answer;
    },

    async pin(namespace: string, workerId: number, reason: string, owner?: PinOwner): Promise<void> {
      await store.pin(namespace, workerId, reason, owner);
      journal.push(`pin ${namespace}/${workerId}`);
    },

    describe: (namespace: string): Promise<NamespaceInfo | undefined> => store.describe(namespace),
    workers: (namespace: string, page?: WorkersPage): Promise<readonly WorkerRecord[]> =>
      store.workers(namespace, page),
    worker: (namespace: string, workerId: number): Promise<WorkerRecord | undefined> =>
      store.worker(namespace, workerId),
    history: (namespace: string, workerId: number, range?: HistoryRange): Promise<readonly HistoryRow[]> =>
      store.history(namespace, workerId, range),
    // Only a store that lends leases has it.
    ...(store.takeBlocks && {
      takeBlocks: async (request: BlocksRequest): Promise<BlocksTaken | Lost> => {
        const answer = await store.takeBlocks?.(request);
        return answer ?? { outcome: "lost" };
      },
    }),
    // Only a store that keeps quarantines and receipts has these.
    ...(store.endQuarantine && {
      async endQuarantine(request: EndQuarantineRequest): Promise<EraInfo> {
        const info = await store.endQuarantine?.(request);
        journal.push(`end of the quarantine ${request.era} of ${request.namespace}`);
        return info as EraInfo;
      },
    }),
    ...(store.separate && {
      async separate(request: SeparateRequest): Promise<NamespaceInfo> {
        const info = await store.separate?.(request);
        journal.push(`${request.namespace} is separated from its original`);
        return info as NamespaceInfo;
      },
    }),
    ...(store.remove && {
      async remove(request: RemoveRequest): Promise<void> {
        await store.remove?.(request);
        journal.push(`${request.namespace} is removed`);
      },
    }),
    ...(store.receiptKey && { receiptKey: async (namespace: string) => store.receiptKey?.(namespace) }),
    unpin: (namespace, workerId) => store.unpin(namespace, workerId),
    prune: (namespace, before) => store.prune(namespace, before),
    ping: (): Promise<Pong> => store.ping(),
    close: () => store.close(),
  };
}

let subjects = 0;

/** Each check gets a store that nobody has used. */
async function makeSubject(): Promise<ConformanceSubject> {
  const store = memoryRegistry();
  const lacks: Partial<Record<Capability, string>> = { connections: "there is one object for all" };
  return {
    namespace: `check_${subjects++}`,
    open: async () => ({ ...journaled(store, []), close: async () => undefined }),
    pause: (ms) => sleep(ms).then(() => undefined),
    now: Date.now,
    lacks,
    close: () => store.close(),
  };
}

// In a test runner: for (const check of conformance) test(check.title, () => runCheck(check, makeSubject)).
const [first]: readonly ConformanceCheck[] = conformance;
if (first !== undefined) console.log((await runCheck(first, makeSubject)).outcome);

const count: Record<ConformanceResult["outcome"], number> = { passed: 0, skipped: 0, failed: 0 };
for await (const result of runConformance(makeSubject)) {
  count[result.outcome]++;
  if (result.outcome === "failed") console.error(result.title, result.error);
}
console.log(`${count.passed} passed, ${count.skipped} skipped, ${count.failed} failed`);
process.exitCode = count.failed === 0 ? 0 : 1;

/** How many worker IDs are in each state. */
export async function statesOf(registry: Registry, namespace: string): Promise<ReadonlyMap<WorkerState, number>> {
  const states = new Map<WorkerState, number>();
  for (const { state } of await registry.workers(namespace)) states.set(state, (states.get(state) ?? 0) + 1);
  return states;
}
