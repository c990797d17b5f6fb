import type {
  ClaimKey,
  ClaimRequest,
  ForceReleased,
  ForceReleaseRequest,
  Grant,
  HistoryRow,
  Refusal,
  Registry,
  ReleaseRequest,
  WorkerRecord,
} from "../../../src/rule/registry.ts";
import type { LateStore, LossyStore } from "../../../src/conformance.ts";
import type { FakeClock } from "../../../src/testing.ts";

/** How a broken registry differs from a correct one. */
export type Wrap = (registry: Registry, clock: FakeClock) => Partial<Registry>;

/** A registry with one mistake in it. */
export interface Fault {
  /** The mistake, in words. */
  readonly fault: string;
  /** Titles of checks that must see the mistake. */
  readonly rejectedBy: readonly string[];
  readonly wrap: Wrap;
  /** A store that keeps writes on their way, for a mistake in what becomes of them. */
  readonly late?: (registry: Registry) => LateStore;
  /** A client that loses answers, for a mistake in what it does after that. */
  readonly lossy?: (registry: Registry) => LossyStore;
}

/** A mistake in what a claim asks the store for. */
export function asking(change: (request: ClaimRequest, clock: FakeClock) => Partial<ClaimRequest>): Wrap {
  return (registry, clock) => ({ claim: (request) => registry.claim({ ...request, ...change(request, clock) }) });
}

/** A mistake in a grant. */
export function granting(change: (grant: Grant, request: ClaimRequest) => Partial<Grant>): Wrap {
  return (registry) => ({
    claim: async (request) => {
      const answer = await registry.claim(request);
      return answer.outcome === "granted" ? { ...answer, ...change(answer, request) } : answer;
    },
  });
}

/** A mistake in a refusal. */
export function refusing(change: (refusal: Refusal) => Refusal): Wrap {
  return (registry) => ({
    claim: async (request) => {
      const answer = await registry.claim(request);
      return answer.outcome === "granted" || answer.outcome === "lost" ? answer : change(answer);
    },
  });
}

/** A mistake in what a release stores. */
export function releasing(change: (request: ReleaseRequest) => Partial<ReleaseRequest>): Wrap {
  return (registry) => ({ release: (request) => registry.release({ ...request, ...change(request) }) });
}

/** A mistake in how a record is shown. */
export function showing(change: (record: WorkerRecord) => Partial<WorkerRecord> | Record<string, unknown>): Wrap {
  const shown = (record: WorkerRecord): WorkerRecord => ({ ...record, ...change(record) });
  return (registry) => ({
    worker: async (...args) => {
      const record = await registry.worker(...args);
      return record && shown(record);
    },
    workers: async (...args) => (await registry.workers(...args)).map(shown),
  });
}

/** A mistake in the history. */
export function telling(change: (rows: readonly HistoryRow[]) => readonly HistoryRow[]): Wrap {
  return (registry) => ({ history: async (...args) => change(await registry.history(...args)) });
}

/** Reopens the window of a worker ID without a holder. */
export async function reopen(registry: Registry, namespace: string, workerId: number): Promise<void> {
  await reset(registry, { namespace, workerId, force: false });
}

/** A forced release that opens the window of any claim. */
export async function reset(registry: Registry, request: ForceReleaseRequest): Promise<ForceReleased> {
  const record = await registry.worker(request.namespace, request.workerId);
  return registry.forceRelease({ ...request, fence: request.fence ?? record?.fence, resetWindow: true });
}

export function keyOf({ namespace, workerId, fence, token }: ClaimKey): string {
  return [namespace, workerId, fence, token].join();
}
