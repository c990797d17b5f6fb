import type { NamespaceInfo } from "../../rule/limits.ts";
import type { HistoryRow, HolderLabel, Registry, WorkerRecord } from "../../rule/registry.ts";
import { checkPlan, countsHere, grouped, hostText, type Plan, type PlannedHost, pinsOf } from "./plan.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { recordsOf } from "../workers.ts";
import { isOurs, type MigrationRequest } from "./apply.ts";
import type { SourceContents, Maker } from "./source.ts";

/**
 * moved: has a lease whose window it has used. stopped: had such a lease since the plan was made, and has none now, so it may make IDs
 * the old way again. old: never used a lease, or is known to make IDs the old way again. conflict: the worker ID of a host has
 * another user, too.
 */
type HostState = "moved" | "stopped" | "old" | "conflict";

/** A host of a plan, or a host that its source has shown since. */
interface KnownHost extends PlannedHost {
  /** Whether it has started since the plan was made. */
  readonly fresh?: boolean | undefined;
}

/** A claim of a host; `at`: Unix ms. */
interface Claimed {
  readonly workerId: number;
  readonly at: number;
}

interface HostStatus extends KnownHost {
  readonly state: HostState;
  /** Its last claim whose window it has used. */
  readonly claimed?: Claimed | undefined;
  /** A later claim whose window it has not used. It waits for the window to open, or its start failed. */
  readonly unused?: Claimed | undefined;
  /** Other users of its worker ID. */
  readonly rivals?: readonly string[] | undefined;
}

/** The progress of a fleet. */
export interface MigrationStatus {
  /** The hosts of the plan, and hosts that the source has shown since. */
  readonly hosts: readonly HostStatus[];
  readonly moved: number;
  readonly stopped: number;
  readonly old: number;
  readonly conflict: number;
  /** Worker IDs of the plan's pins that are not pinned. Hosts on the old scheme are in danger. */
  readonly unpinned: readonly number[];
  /**
   * Number of worker IDs that are kept for the source's next programs, and how many of them it has handed out. Undefined if the source
   * was not read again, or its `next` is not `above`.
   */
  readonly headroom?: { readonly kept: number; readonly used: number } | undefined;
  /** The registry's clock, Unix ms. */
  readonly clock: number;
}

/** How long an old program may overlap with the lease of its host before it counts as not stopped, ms. */
const overlap = 5000;

/** The progress of the hosts of a plan. @throws SnowleaseError NOT_FOUND, LAYOUT_MISMATCH, CONFIG_INVALID */
export async function migrationStatus({ registry, plan, named, findings }: MigrationRequest): Promise<MigrationStatus> {
  const { namespace } = plan;
  const info = await presentNamespace(registry, namespace);
  const { layout, maxClockSkew } = info;
  checkPlan(plan, named, layout);
  const { clock } = await registry.ping();
  const records = await recordsOf(registry, namespace);
  const hosts: readonly KnownHost[] =
    findings === undefined ? plan.hosts : [...plan.hosts, ...startedSince(plan, findings, records)];
  const { claims, attempts, running } = await claimsSince(registry, { ...plan, hosts }, records, info);
  const usedUntil = new Map(findings?.makers.map((maker) => [makerKey(maker), maker.usedUntil ?? 0]));
  /** The claim of a host that has moved. */
  const claimOf = (host: KnownHost): Claimed | undefined => {
    const claimed = claims.get(keyOf(host));
    // A source that hands out `any` removes entries of ended programs, so a fresh entry is a running program. Other sources show last uses.
    if (claimed === undefined || (host.fresh === true && findings?.reach.next === "any")) return undefined;
    return (usedUntil.get(makerKey(host)) ?? 0) > claimed.at + maxClockSkew + overlap ? undefined : claimed;
  };

  const left = grouped(
    hosts.filter((host) => claimOf(host) === undefined),
    ({ workerId }) => workerId,
  );
  const here = countsHere(plan);
  const stated = hosts.map((host): HostStatus => {
    const moved = claimOf(host) !== undefined;
    const claimed = claims.get(keyOf(host));
    const attempt = attempts.get(keyOf(host));
    const unused = attempt !== undefined && attempt.at > (claimed?.at ?? -1) ? attempt : undefined;
    const others = moved ? [] : (left.get(host.workerId) ?? []).filter((other) => other !== host);
    const record = here ? records.get(host.workerId) : undefined;
    const holder = record?.holder;
    // The worker ID of a moved host was pinned, so only a fresh host's can be leased by a rival. The own start of a host is not a rival.
    const isOthers = holder?.ip !== host.address || (record !== undefined && hasUsed(record));
    const leased = record?.state === "live" && (moved ? host.fresh === true && holder?.ip !== host.address : isOthers);
    const rivals = [...others.map(hostText), ...(leased ? [`${holder?.host} (${holder?.ip}), in the registry`] : [])];
    if (rivals.length > 0) return { ...host, claimed, unused, state: "conflict", rivals };
    const inUse = running.has(keyOf(host)) ? "moved" : "stopped";
    return { ...host, claimed, unused, state: moved ? inUse : "old" };
  });
  const count = (state: HostState): number => stated.filter((host) => host.state === state).length;
  const unpinned = [...pinsOf(plan).keys()].filter((workerId) => records.get(workerId)?.pinned === undefined);
  return {
    hosts: stated,
    moved: count("moved"),
    stopped: count("stopped"),
    old: count("old"),
    conflict: count("conflict"),
    unpinned,
    headroom: findings && headroomOf(plan, findings),
    clock,
  };
}

/** Programs that the source shows now, and that are not in the plan. A restarted program has another worker ID or name. */
function startedSince(
  { hosts, sharesStore }: Plan,
  { makers }: SourceContents,
  records: ReadonlyMap<number, WorkerRecord>,
): readonly KnownHost[] {
  const known = new Set(hosts.map(makerKey));
  // In a shared store, a lease has an entry like a program of the old scheme.
  const isLease = ({ workerId, name, address }: Maker): boolean => {
    const { holder, state } = records.get(workerId) ?? {};
    return state !== "foreign" && holder?.ip === address && name === `${holder?.host}/${holder?.pid}`;
  };
  const fresh = makers.filter((maker) => !known.has(makerKey(maker)) && !(sharesStore && isLease(maker)));
  return fresh.map((maker) => ({ ...maker, renumbered: "it has started since the plan was made", fresh: true }));
}

function headroomOf({ highest, leased }: Plan, { reach }: SourceContents): MigrationStatus["headroom"] {
  if (reach.next !== "above") return undefined;
  return { kept: leased.first - 1 - highest, used: Math.max(0, reach.highest - highest) };
}

/**
 * Whether the last holder has used its window. It has, if it reported an ID, or if the registry heard from it while the window was open
 * and it did not release the window unused. A start that is refused, fails or still waits has not.
 */
function hasUsed({ from, until, seenClock, checkpoint }: WorkerRecord): boolean {
  return checkpoint !== undefined || (until > from && seenClock >= from);
}

/** The same for a claim in the history, which does not show when the registry last heard from the holder. In doubt, it is false. */
function wasUsed({ from, until, claimedAt, end, endedAt = 0 }: HistoryRow, { maxWindow }: NamespaceInfo): boolean {
  const wasOpen = from <= claimedAt || (end === "released" ? endedAt >= from : until > from + maxWindow);
  return until > from && wasOpen;
}

/** The claims of hosts in the registry. All keys are from `keyOf`. */
interface HostClaims {
  /** The last claim of each host since the plan was made, or its present claim, if it has used the window. */
  readonly claims: ReadonlyMap<string, Claimed>;
  /** The last claim of each host whose window it has not used. */
  readonly attempts: ReadonlyMap<string, Claimed>;
  /** Hosts that use the window of a lease now. */
  readonly running: ReadonlySet<string>;
}

async function claimsSince(
  registry: Registry,
  { namespace, createdAt, hosts }: Plan,
  records: ReadonlyMap<number, WorkerRecord>,
  info: NamespaceInfo,
): Promise<HostClaims> {
  const wanted = new Set(hosts.map(keyOf));
  const [claims, attempts] = [new Map<string, Claimed>(), new Map<string, Claimed>()];
  const running = new Set<string>();
  // A host without a known address is identified by its name.
  const keysOf = (holder: HolderLabel | undefined): readonly string[] =>
    [holder?.ip ?? "", `host ${holder?.host}`].filter((key) => wanted.has(key));
  const note = (
    found: Map<string, Claimed>,
    workerId: number,
    holder: HolderLabel | undefined,
    at: number = 0,
  ): void => {
    for (const key of keysOf(holder)) if ((found.get(key)?.at ?? -1) < at) found.set(key, { workerId, at });
  };
  const recent = [...records.values()].filter(({ claimedAt = 0 }) => claimedAt >= createdAt);
  const live = [...records.values()].filter(({ state }) => state === "live");
  for (const record of [...recent, ...live]) {
    note(hasUsed(record) ? claims : attempts, record.workerId, record.holder, record.claimedAt);
  }
  for (const { holder } of live.filter(hasUsed)) for (const key of keysOf(holder)) running.add(key);
  // A host that is still missing may have had a worker ID that another host has now. No window of a claim since the plan ended before this.
  const from = createdAt - info.maxClockSkew - 1;
  for (const { workerId, fence } of recent) {
    if (claims.size === wanted.size) break;
    for (const row of await registry.history(namespace, workerId, { from })) {
      if (row.claimedAt < createdAt || row.fence === fence) continue;
      note(wasUsed(row, info) ? claims : attempts, workerId, row.holder, row.claimedAt);
    }
  }
  return { claims, attempts, running };
}

/** The key of a host's claims. */
function keyOf({ name, address }: Pick<Maker, "name" | "address">): string {
  return address ?? `host ${name}`;
}

/** The key that identifies a maker when its source is read again. */
function makerKey({ workerId, name }: Maker): string {
  return `${workerId} ${name}`;
}

export interface Finish {
  readonly status: MigrationStatus;
  /** Pins to remove. */
  readonly pins: readonly WorkerRecord[];
  /** Number of pins that stay for good. */
  readonly staying: number;
  /** The time from which the pins may be removed, by the registry's clock, Unix ms. */
  readonly readyAt: number;
}

/**
 * The rest of the work when all hosts have moved. Pins may be removed one window and `maxClockSkew` after the last claim of a host, and
 * not before times that are known to be used. If the source hands out worker IDs, or with `force`, an old program may have ended a
 * moment ago. Then the wait begins now.
 */
export async function prepareFinish(request: MigrationRequest, window: number, force: boolean): Promise<Finish> {
  const { registry, plan, findings } = request;
  const status = await migrationStatus(request);
  const { maxClockSkew } = await presentNamespace(registry, plan.namespace);
  const records = [...(await recordsOf(registry, plan.namespace)).values()].filter(isOurs);
  const planned = pinsOf(plan);
  const burnt = (findings?.retired ?? []).filter(({ forGood }) => forGood === true && countsHere(plan));
  const pins = records.filter(({ workerId }) => {
    const stays = burnt.some(({ first, last }) => workerId >= first && workerId <= last);
    return planned.get(workerId)?.forGood !== true && !stays;
  });
  const last = Math.max(plan.createdAt, ...status.hosts.map(({ claimed }) => claimed?.at ?? 0));
  const used = pins.filter(({ holder }) => holder === undefined).map(({ until }) => until);
  const begin = plan.from !== "ip" || (force && status.moved < status.hosts.length) ? status.clock : last;
  const readyAt = Math.max(begin + window + maxClockSkew, ...used);
  return { status, pins, staying: records.length - pins.length, readyAt };
}
