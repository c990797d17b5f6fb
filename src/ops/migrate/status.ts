import type { HolderLabel, Registry, WorkerRecord } from "../../core/registry.ts";
import { checkPlan, grouped, hostText, type Plan, type PlannedHost, pinsOf } from "./plan.ts";
import { infoOf, isOurs, recordsOf } from "./apply.ts";

/** moved: has claimed. old: never did since the plan was made. conflict: the same, and another one uses its number, too. */
type HostState = "moved" | "old" | "conflict";

/** How far a host is. */
interface HostStatus extends PlannedHost {
  readonly state: HostState;
  /** The worker ID that it claimed last, and when, Unix ms. */
  readonly claimed?: { readonly workerId: number; readonly at: number } | undefined;
  /** Who else uses its number. */
  readonly rivals?: readonly string[] | undefined;
}

/** How far a fleet is. */
export interface MigrationStatus {
  readonly hosts: readonly HostStatus[];
  readonly moved: number;
  readonly old: number;
  readonly conflict: number;
  /** Worker IDs that the plan pins and that are not pinned: hosts on the old scheme are in danger. */
  readonly unpinned: readonly number[];
  /** The registry's clock, Unix ms. */
  readonly clock: number;
}

/** What is looked at. */
export interface StatusRequest {
  readonly registry: Registry;
  readonly plan: Plan;
  readonly named?: string | undefined;
}

/** Tells how far the hosts of a plan are. @throws SnowleaseError NOT_FOUND, LAYOUT_MISMATCH, CONFIG_INVALID */
export async function migrationStatus({ registry, plan, named }: StatusRequest): Promise<MigrationStatus> {
  const { namespace, hosts } = plan;
  const { layout, maxClockSkew } = await infoOf(registry, namespace);
  checkPlan(plan, named, layout);
  const { clock } = await registry.ping();
  const records = await recordsOf(registry, namespace);
  const claims = await claimsSince(registry, plan, records, maxClockSkew);
  const isMoved = (host: PlannedHost): boolean => claims.has(keyOf(host));

  const left = grouped(
    hosts.filter((host) => !isMoved(host)),
    ({ workerId }) => workerId,
  );
  const stated = hosts.map((host): HostStatus => {
    const claimed = claims.get(keyOf(host));
    if (claimed !== undefined) return { ...host, state: "moved", claimed };
    const others = (left.get(host.workerId) ?? []).filter((other) => other !== host);
    const { state, holder } = records.get(host.workerId) ?? {};
    const rivals = [
      ...others.map(hostText),
      ...(holder && state === "live" ? [`${holder.host} (${holder.ip}), in the registry`] : []),
    ];
    return rivals.length === 0 ? { ...host, state: "old" } : { ...host, state: "conflict", rivals };
  });
  const count = (state: HostState): number => stated.filter((host) => host.state === state).length;
  const unpinned = [...pinsOf(plan).keys()].filter((workerId) => records.get(workerId)?.pinned === undefined);
  return { hosts: stated, moved: count("moved"), old: count("old"), conflict: count("conflict"), unpinned, clock };
}

/** The last claim of each host since the plan was made, or the one that still goes on. */
async function claimsSince(
  registry: Registry,
  { namespace, createdAt, hosts }: Plan,
  records: ReadonlyMap<number, WorkerRecord>,
  maxClockSkew: number,
): Promise<ReadonlyMap<string, { readonly workerId: number; readonly at: number }>> {
  const wanted = new Set(hosts.map(keyOf));
  const found = new Map<string, { readonly workerId: number; readonly at: number }>();
  const note = (workerId: number, holder: HolderLabel | undefined, at: number = 0): void => {
    // A host whose address is not known is known by its name.
    for (const key of [holder?.ip ?? "", `host ${holder?.host}`]) {
      if (wanted.has(key) && (found.get(key)?.at ?? -1) < at) found.set(key, { workerId, at });
    }
  };
  const recent = [...records.values()].filter((record) => (record.claimedAt ?? 0) >= createdAt);
  for (const { workerId, holder, claimedAt } of recent) note(workerId, holder, claimedAt);
  for (const { workerId, holder, claimedAt, state } of records.values()) {
    if (state === "live") note(workerId, holder, claimedAt);
  }
  // Whoever is still missed may have had a number that somebody else has now. No window of a claim since then ended before this.
  const from = createdAt - maxClockSkew - 1;
  for (const { workerId } of recent) {
    if (found.size === wanted.size) break;
    for (const row of await registry.history(namespace, workerId, { from })) {
      if (row.claimedAt >= createdAt) note(workerId, row.holder, row.claimedAt);
    }
  }
  return found;
}

/** What a host's claims are found by. */
function keyOf({ name, address }: PlannedHost): string {
  return address ?? `host ${name}`;
}

/** Everything that finishing needs to know. */
export interface Finish {
  readonly status: MigrationStatus;
  /** Pins to take back. */
  readonly pins: readonly WorkerRecord[];
  /** Pins that stay for good. */
  readonly staying: number;
  /** When they may be taken back, by the registry's clock, Unix ms. */
  readonly readyAt: number;
}

/**
 * What is left to do when all hosts have moved. Pins go one window and the largest difference of clocks after the last host has
 * claimed (`force`: after now), and not before times that are known to be used.
 */
export async function prepareFinish(request: StatusRequest, window: number, force: boolean): Promise<Finish> {
  const { registry, plan } = request;
  const status = await migrationStatus(request);
  const { maxClockSkew } = await infoOf(registry, plan.namespace);
  const records = [...(await recordsOf(registry, plan.namespace)).values()].filter(isOurs);
  const planned = pinsOf(plan);
  const pins = records.filter(({ workerId }) => planned.get(workerId)?.forGood !== true);
  const last = Math.max(plan.createdAt, ...status.hosts.map(({ claimed }) => claimed?.at ?? 0));
  const used = pins.filter(({ holder }) => holder === undefined).map(({ until }) => until);
  const begin = force && status.moved < status.hosts.length ? status.clock : last;
  return {
    status,
    pins,
    staying: records.length - pins.length,
    readyAt: Math.max(begin + window + maxClockSkew, ...used),
  };
}
