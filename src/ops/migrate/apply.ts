import { Layout } from "../../id/layout.ts";
import { configInvalid, counted, isSnowleaseError, SnowleaseError, timeText } from "../../id/errors.ts";
import { mostPins, type Registry, type WorkerRecord } from "../../rule/registry.ts";
import { checkPin } from "../../rule/pin.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { batchesOf, pinEach, unpinEach } from "../../registries/pin-batches.ts";
import { recordsOf } from "../workers.ts";
import type { SourceContents } from "./source.ts";
import { checkPlan, hostText, type Plan, type PlannedPin, pinMark, pinsOf } from "./plan.ts";

/** The pins after a plan was applied. */
export interface Applied {
  /** Number of pins that were made or changed. */
  readonly pinned: number;
  readonly unchanged: number;
  /** Pins for another reason. They stay as they are. */
  readonly others: readonly { readonly workerId: number; readonly reason: string }[];
  /** Worker IDs with a pin of an earlier plan. */
  readonly left: readonly number[];
}

export interface MigrationRequest {
  readonly registry: Registry;
  readonly plan: Plan;
  /** The namespace that the user named, if any. */
  readonly named?: string | undefined;
  /** The present contents of the source. Undefined if it was not read again. */
  readonly findings?: SourceContents | undefined;
  readonly onProgress?: ((done: number, of: number) => void) | undefined;
}

/**
 * Pins the worker IDs of the plan, for their owner or for no host. Repeatable. Pins nothing if one of the pins is impossible.
 * @param renumber makes every pin for no host, so that each host gets another worker ID.
 * @throws SnowleaseError NOT_FOUND without the namespace, LAYOUT_MISMATCH, CONFIG_INVALID, also for a plan that its source has outrun.
 */
export async function applyPlan(
  { registry, plan, named, findings, onProgress }: MigrationRequest,
  renumber: boolean = false,
): Promise<Applied> {
  const { namespace } = plan;
  const info = await presentNamespace(registry, namespace);
  checkPlan(plan, named, info.layout);
  if (findings !== undefined) checkPresent(plan, findings);
  const pins = [...pinsOf(plan).values()].map((pin) => (renumber ? { ...pin, owner: undefined } : pin));
  const { clock } = await registry.ping();
  const highest = Layout.parse(info.layout).pool.last;
  for (const pin of pins) checkPin(pin, highest, clock, info);
  const present = await recordsOf(registry, namespace);
  const due: PlannedPin[] = [];
  const others: { workerId: number; reason: string }[] = [];
  for (const pin of pins) {
    const record = present.get(pin.workerId);
    if (record?.pinned !== undefined && !isOurs(record)) {
      others.push({ workerId: pin.workerId, reason: record.pinned });
    } else if (!isInPlace(record, pin)) due.push(pin);
  }
  for (const [i, batch] of batchesOf(due).entries()) {
    onProgress?.(i * mostPins, due.length);
    await pinEach(registry, namespace, batch).catch((error: unknown) => {
      if (!isSnowleaseError(error, "WORKER_ID_HELD")) throw error;
      return pinHeld(registry, namespace, batch);
    });
  }
  const planned = new Set(pins.map(({ workerId }) => workerId));
  const left = [...present.values()].filter((record) => isOurs(record) && !planned.has(record.workerId));
  return {
    pinned: due.length,
    unchanged: pins.length - due.length - others.length,
    others,
    left: left.map(({ workerId }) => workerId),
  };
}

/** Pins one by one. If a holder's window may close before the last time that the owner used, the pin is for no host. */
async function pinHeld(registry: Registry, namespace: string, pins: readonly PlannedPin[]): Promise<void> {
  for (const { workerId, reason, owner } of pins) {
    await registry.pin(namespace, workerId, reason, owner).catch((error: unknown) => {
      if (!isSnowleaseError(error, "WORKER_ID_HELD")) throw error;
      return registry.pin(namespace, workerId, reason);
    });
  }
}

/** Refuses a plan if its source has since handed out worker IDs that the plan leases, or shows hosts that the plan does not have. */
function checkPresent({ from, highest, leased, hosts, createdAt }: Plan, { makers, reach }: SourceContents): void {
  const outrun = reach.next === "above" && reach.highest > highest && reach.highest >= leased.first;
  const missing = reach.next === "none" ? makers.filter(({ name }) => !hosts.some((host) => host.name === name)) : [];
  if (!outrun && missing.length === 0) return;
  const what = outrun
    ? `${from} has handed out worker IDs up to ${reach.highest}, and the plan leases those from ${leased.first} on`
    : `${counted(missing.length, "host is", "hosts are")} not in the plan (${missing.slice(0, 5).map(hostText).join(", ")})`;
  throw configInvalid(`Since the plan was made, ${timeText(createdAt)}, ${what}; make a new plan, and apply it.`);
}

/**
 * Removes each pin that a plan made in its namespace. Repeatable.
 * @param force allows it while worker IDs are leased. The next claim may get the worker ID of a host that makes IDs without a lease.
 * @returns the number of removed pins, and the number of leased worker IDs.
 * @throws SnowleaseError WORKER_ID_HELD if there are both leased worker IDs and pins, without `force`.
 */
export async function revertPlan(
  { registry, plan, named, onProgress }: MigrationRequest,
  force: boolean = false,
): Promise<{ readonly unpinned: number; readonly live: number }> {
  const { namespace } = plan;
  const info = await presentNamespace(registry, namespace);
  checkPlan(plan, named, info.layout);
  const records = [...(await recordsOf(registry, namespace)).values()];
  const pins = records.filter(isOurs);
  const leased = records.filter(({ state }) => state === "live");
  if (pins.length > 0 && leased.length > 0 && !force) throw stillLeased(leased);
  const unpinned = await unpinAll(registry, namespace, pins, onProgress);
  return { unpinned, live: leased.length };
}

function stillLeased(leased: readonly WorkerRecord[]): SnowleaseError {
  const some = leased.slice(0, 5).map(({ workerId, holder }) => `${workerId} by ${holder?.host} (${holder?.ip})`);
  const more = leased.length > some.length ? ", …" : "";
  return new SnowleaseError(
    "WORKER_ID_HELD",
    `${counted(leased.length, "worker ID is", "worker IDs are")} leased (${some.join(", ")}${more}), and without the pins a claim may get one that a host of the old scheme uses: move those hosts back first, or remove the pins nevertheless with \`--force\`.`,
  );
}

/** Removes pins. Returns how many there were. */
export async function unpinAll(
  registry: Registry,
  namespace: string,
  records: readonly WorkerRecord[],
  onProgress?: (done: number, of: number) => void,
): Promise<number> {
  let unpinned = 0;
  for (const [i, batch] of batchesOf(records).entries()) {
    onProgress?.(i * mostPins, records.length);
    const workerIds = batch.map(({ workerId }) => workerId);
    unpinned += (await unpinEach(registry, namespace, workerIds)).length;
  }
  return unpinned;
}

/** Whether the pin of a worker ID is from a plan. */
export function isOurs({ pinned }: WorkerRecord): boolean {
  return pinned?.startsWith(pinMark) === true;
}

/** Whether a pin exists already. Only the first pin notes the times that its owner used. */
function isInPlace(record: WorkerRecord | undefined, { reason, owner }: PlannedPin): boolean {
  return record?.pinned === reason && record.owner === owner?.ip;
}
