import { Layout } from "../id/layout.ts";
import { SnowleaseError, timeText } from "../id/errors.ts";
import type { ForceReleaseRequest, HolderLabel, Registry, WorkerRecord, WorkerState } from "../rule/registry.ts";
import { checkPin } from "../rule/pin.ts";
import { presentNamespace } from "../rule/namespace.ts";
import { pinEach, unpinEach } from "../registries/pin-batches.ts";

const pageSize = 1000;

/** All records of a namespace, in ascending order, page by page. @throws SnowleaseError NOT_FOUND for an unknown namespace. */
export async function* listWorkers(
  registry: Registry,
  namespace: string,
  state?: WorkerState,
): AsyncGenerator<WorkerRecord> {
  await presentNamespace(registry, namespace);
  for (let after: number | undefined; ;) {
    const page = await registry.workers(namespace, { state, after, limit: pageSize });
    yield* page;
    if (page.length < pageSize) return;
    after = page.at(-1)?.workerId;
  }
}

/** All records of a namespace, by worker ID. @throws SnowleaseError NOT_FOUND for an unknown namespace. */
export async function recordsOf(registry: Registry, namespace: string): Promise<ReadonlyMap<number, WorkerRecord>> {
  const records = new Map<number, WorkerRecord>();
  for await (const record of listWorkers(registry, namespace)) records.set(record.workerId, record);
  return records;
}

export interface EndedClaim {
  readonly holder: HolderLabel;
  readonly fence: number;
  /** The worker ID rests until this time, Unix ms. */
  readonly until: number;
}

/**
 * Ends the present claim, and never a later one.
 * @throws SnowleaseError NOT_FOUND when the worker ID was never claimed; WORKER_ID_HELD when it is held and `force` is false, and when
 * another holder claimed it in the meantime.
 */
export async function releaseWorker(
  registry: Registry,
  request: Omit<ForceReleaseRequest, "fence">,
): Promise<EndedClaim> {
  const { namespace, workerId } = request;
  await presentNamespace(registry, namespace);
  const worker = `Worker ${workerId} of namespace \`${namespace}\``;
  const neverClaimed = new SnowleaseError("NOT_FOUND", `${worker} was never claimed, so there is nothing to end.`);
  const { holder, fence } = (await registry.worker(namespace, workerId)) ?? {};
  if (holder === undefined || fence === undefined) throw neverClaimed;
  const answer = await registry.forceRelease({ ...request, fence });
  if (answer.outcome === "absent") throw neverClaimed;
  const { outcome, until } = answer;
  if (outcome === "released") return { holder, fence, until };
  const { host, ip, pid } = answer.holder;
  const claimer = `${host} (${ip}), pid ${pid},`;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    outcome === "superseded"
      ? `${worker} was claimed by ${claimer} in the meantime, so nothing was changed; check whether that claim should end.`
      : `${worker} is held by ${claimer} until ${timeText(until)}; stop that process, or end its claim with \`--force\`.`,
  );
}

/**
 * Keeps worker IDs out of the pool. Their present holders continue. Pins all of them, or none if one cannot be pinned.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for a worker ID that its layout does not have, or a
 * reason that is empty or too long.
 */
export async function pinWorkers(
  registry: Registry,
  namespace: string,
  workerIds: readonly number[],
  reason: string,
): Promise<void> {
  const info = await presentNamespace(registry, namespace);
  const highest = Layout.parse(info.layout).pool.last;
  const pins = workerIds.map((workerId) => ({ workerId, reason }));
  for (const pin of pins) checkPin(pin, highest, 0, info);
  await pinEach(registry, namespace, pins);
}

/**
 * Puts pinned worker IDs back into the pool. Their windows stay as they were.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace, and for worker IDs that were not pinned. The others are unpinned.
 */
export async function unpinWorkers(registry: Registry, namespace: string, workerIds: readonly number[]): Promise<void> {
  await presentNamespace(registry, namespace);
  const unpinned = new Set(await unpinEach(registry, namespace, workerIds));
  const absent = workerIds.filter((workerId) => !unpinned.has(workerId));
  if (absent.length === 0) return;
  const others = absent.length < workerIds.length ? "; the others are unpinned" : "";
  throw new SnowleaseError(
    "NOT_FOUND",
    `Not pinned in namespace \`${namespace}\`: ${absent.join(", ")}${others}; see \`snowlease workers --state pinned\`.`,
  );
}
