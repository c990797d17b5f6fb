import { SnowleaseError } from "../core/errors.ts";
import type { ForceReleaseRequest, Registry, WorkerRecord, WorkerState } from "../core/registry.ts";
import { noNamespace, timeText } from "../core/window.ts";

const pageSize = 1000;

/**
 * The worker IDs of a namespace that were ever used or are pinned, in ascending order, however many there are.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace.
 */
export async function* listWorkers(
  registry: Registry,
  namespace: string,
  state?: WorkerState,
): AsyncGenerator<WorkerRecord> {
  if ((await registry.describe(namespace)) === undefined) throw noNamespace(namespace);
  for (let after: number | undefined; ;) {
    const page = await registry.workers(namespace, { state, after, limit: pageSize });
    yield* page;
    if (page.length < pageSize) return;
    after = page.at(-1)?.workerId;
  }
}

/**
 * Ends somebody's claim. Returns until when its window stays closed, Unix ms.
 * @throws SnowleaseError NOT_FOUND when the worker ID was never claimed, WORKER_ID_HELD when it is and `force` is false.
 */
export async function releaseWorker(registry: Registry, request: ForceReleaseRequest): Promise<number> {
  const { namespace, workerId } = request;
  if ((await registry.describe(namespace)) === undefined) throw noNamespace(namespace);
  const answer = await registry.forceRelease(request);
  const worker = `Worker ${workerId} of namespace \`${namespace}\``;
  switch (answer.outcome) {
    case "released":
      return answer.until;
    case "absent":
      throw new SnowleaseError("NOT_FOUND", `${worker} was never claimed, so there is nothing to end.`);
    case "live": {
      const { host, ip, pid } = answer.holder;
      throw new SnowleaseError(
        "WORKER_ID_HELD",
        `${worker} is held by ${host} (${ip}), pid ${pid}, until ${timeText(answer.until)}; stop that process, or end its claim with \`--force\`.`,
      );
    }
  }
}
