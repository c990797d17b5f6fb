import { configInvalid, SnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { printable } from "../../id/printable.ts";
import type { Registry, WorkerRecord } from "../../rule/registry.ts";
import { recordsOf } from "../workers.ts";
import { checkOverlap, sameIds } from "./overlap.ts";
import { type Apart, apartFrom, type ReserveRequest, reserveOf } from "./reserve.ts";
import { type SourceContents, type Maker, nothingThere, type RetiredRange, type SourceKind } from "./source.ts";

/** A host that makes IDs without a lease, and the future of its worker ID. */
export interface PlannedHost extends Maker {
  /** Why the host gets another worker ID in the move. Undefined if it keeps its own. */
  readonly renumbered?: string | undefined;
}

/** The future of the worker IDs of a fleet. */
export interface Plan {
  readonly snowlease: "migration plan";
  readonly version: 1;
  /** Time at which its source was read, Unix ms. A host with a later claim has moved. */
  readonly createdAt: number;
  readonly namespace: string;
  readonly layout: string;
  readonly from: SourceKind;
  /** The URL of the source, without a login and settings. */
  readonly source: string;
  /** The layout of the IDs of the old scheme. */
  readonly sourceLayout: string;
  /** How many worker IDs the source can hand out. */
  readonly numbers: number;
  /** `highest` of the source's `Reach`. -1: none. */
  readonly highest: number;
  /** Whether the registry keeps its leases in the source's own store, and respects the entries there. */
  readonly sharesStore: boolean;
  /** The worker IDs that are left to lease. Some of them may be pinned or taken. */
  readonly leased: PoolBounds;
  /** Hosts that collide come first. */
  readonly hosts: readonly PlannedHost[];
  /** More worker IDs that are pinned for no host. */
  readonly retired: readonly RetiredRange[];
}

/** The worker IDs of a namespace by their future, for people. */
export interface Outlook {
  /** Worker IDs that several hosts use. */
  readonly collisions: readonly { readonly workerId: number; readonly hosts: readonly string[] }[];
  /** Number of all worker IDs. */
  readonly size: number;
  /** Number of hosts that keep their worker ID, and of hosts that get another. */
  readonly kept: number;
  readonly renumbered: number;
  /** Number of worker IDs that are pinned for no host. */
  readonly retired: number;
  /** Number of other worker IDs that are in use or pinned in the registry today. Undefined without a registry. */
  readonly taken?: number | undefined;
  readonly left: number;
}

export interface PlanRequest extends Omit<ReserveRequest, "reach" | "apart"> {
  readonly namespace: string;
  readonly source: string;
  readonly sourceLayout: Layout;
  readonly numbers: number;
  readonly sharesStore?: boolean | undefined;
  /** Shows the worker IDs that are already taken. */
  readonly registry?: Registry | undefined;
}

/**
 * Makes a plan from the contents of a source. Changes nothing.
 * @throws SnowleaseError CONFIG_INVALID if nothing is left to lease, LAYOUT_MISMATCH for a layout whose IDs could equal the source's.
 */
export async function makePlan(
  findings: SourceContents,
  request: PlanRequest,
): Promise<{ readonly plan: Plan; readonly outlook: Outlook }> {
  const { namespace, layout, from, source, sourceLayout, numbers, sharesStore = false, now, registry } = request;
  checkNumbers(findings, request);
  checkOverlap(sourceLayout, layout, from, now);
  const apart = apartFrom(sourceLayout, layout, sharesStore);
  const { leased, ranges } = reserveOf({ ...request, reach: findings.reach, apart });
  const taken = registry === undefined ? undefined : await takenIn(registry, namespace);
  const users = grouped(findings.makers, ({ workerId }) => workerId);
  const atAddress = grouped(findings.makers, ({ address }) => address);
  const others = (maker: Maker): readonly string[] => {
    const { holder, state } = taken?.get(maker.workerId) ?? {};
    const held =
      apart !== "another layout" && state !== "foreign" && holder !== undefined && holder.ip !== maker.address
        ? [`${holder.host} (${holder.ip}), in the registry`]
        : [];
    return [...(users.get(maker.workerId) ?? []).filter((each) => each !== maker).map(hostText), ...held];
  };
  const hosts = findings.makers.map((maker): PlannedHost & { readonly collides: boolean } => {
    const rivals = others(maker);
    const renumbered = whyRenumbered(maker, rivals, apart, findings, atAddress.get(maker.address)?.length ?? 0);
    return { ...maker, renumbered, collides: rivals.length > 0 };
  });
  const sorted = hosts.toSorted((a, b) => Number(b.collides) - Number(a.collides) || a.workerId - b.workerId);
  const plain = (text: string): string => printable(text).slice(0, 300);
  const plan: Plan = {
    snowlease: "migration plan",
    version: 1,
    createdAt: now,
    namespace,
    layout: layout.fingerprint,
    from,
    source,
    sourceLayout: sourceLayout.fingerprint,
    numbers,
    highest: findings.reach.highest,
    sharesStore,
    leased,
    hosts: sorted.map(({ collides: _, ...host }) => ({ ...host, name: plain(host.name) })),
    retired: [...ranges, ...(apart === "another layout" ? [] : findings.retired)].map((range) => {
      return { ...range, last: Math.min(range.last, layout.pool.last) };
    }),
  };
  const collided = [...new Set(sorted.filter(({ collides }) => collides).map(({ workerId }) => workerId))];
  const collisions = collided.map((workerId) => {
    const [first] = users.get(workerId) ?? [];
    return { workerId, hosts: first === undefined ? [] : [hostText(first), ...others(first)] };
  });
  const outlook = { collisions, ...poolAfter(plan, layout, taken) };
  if (outlook.left > 0) return { plan, outlook };
  throw new SnowleaseError(
    "POOL_EXHAUSTED",
    `Each of the ${outlook.size} worker IDs of namespace \`${namespace}\` is pinned by the plan or taken, and none is left to lease; name another namespace, or a layout with more bits for worker IDs.`,
  );
}

/** Refuses a source without worker IDs, or with a worker ID that its layout does not have. */
function checkNumbers({ makers, retired }: SourceContents, request: PlanRequest): void {
  const { from, source, sourceLayout, numbers } = request;
  const found = [
    ...makers.map(({ workerId, name }) => ({ workerId, whose: `of ${name}` })),
    ...retired.map(({ last, why }) => ({ workerId: last, whose: `(${why})` })),
  ];
  const [highest] = found.toSorted((a, b) => b.workerId - a.workerId);
  if (highest === undefined) throw nothingThere(from, source);
  const { workerId, whose } = highest;
  if (workerId < numbers) return;
  throw configInvalid(
    `Expected worker IDs from 0 to ${numbers - 1} (the layout ${sourceLayout.fingerprint}), got ${workerId} ${whose} in ${source}; name the layout of this fleet's IDs with \`--source-layout\` (at least ${Math.ceil(Math.log2(workerId + 1))} bits for the worker ID), or delete that number from the source where no program uses it.`,
  );
}

/** Counts worker IDs by their future. */
function poolAfter(
  plan: Plan,
  { pool }: Layout,
  taken: ReadonlyMap<number, WorkerRecord> | undefined,
): Omit<Outlook, "collisions"> {
  const size = pool.last - pool.first + 1;
  const pins = pinsOf(plan);
  const kept = plan.hosts.filter(({ renumbered }) => renumbered === undefined).length;
  const besides = taken && [...taken.keys()].filter((workerId) => !pins.has(workerId)).length;
  return {
    size,
    kept,
    renumbered: plan.hosts.length - kept,
    retired: pins.size - kept,
    taken: besides,
    left: size - pins.size - (besides ?? 0),
  };
}

function whyRenumbered(
  maker: Maker,
  rivals: readonly string[],
  apart: Apart | undefined,
  { retired, takesOver }: SourceContents,
  atAddress: number,
): string | undefined {
  if (rivals.length > 0) return clipped(`collides with ${rivals.join(", ")}`);
  if (apart === "another layout") return "the layout is another one";
  if (apart === "the same store") return "its entry stays in the store that both share";
  if (takesOver !== true) return takesOver;
  const range = retired.find(({ first, last }) => maker.workerId >= first && maker.workerId <= last);
  if (range !== undefined) return range.why;
  if (maker.address === undefined) return "its address is not known";
  return atAddress > 1 ? `${atAddress} worker IDs are used at this address` : undefined;
}

/** Worker IDs that have a holder, or are kept out of the pool. */
async function takenIn(registry: Registry, namespace: string): Promise<ReadonlyMap<number, WorkerRecord>> {
  if ((await registry.describe(namespace)) === undefined) return new Map();
  const records = await recordsOf(registry, namespace);
  return new Map([...records].filter(([, { state }]) => state !== "free"));
}

export interface PlannedPin {
  readonly workerId: number;
  readonly reason: string;
  /** The host that may claim it. Undefined: none. */
  readonly owner?: { readonly ip: string; readonly usedUntil?: number | undefined } | undefined;
  readonly forGood: boolean;
}

/** The beginning of the reason of every pin from a plan. */
export const pinMark = "migration: ";

/** Whether a worker ID of a plan's source means the same in its namespace. */
export function countsHere({ sourceLayout, layout }: Plan): boolean {
  return sameIds(Layout.parse(sourceLayout), Layout.parse(layout));
}

/** The pins that a plan asks for, by worker ID. */
export function pinsOf(plan: Plan): ReadonlyMap<number, PlannedPin> {
  const { retired } = plan;
  const hosts = countsHere(plan) ? plan.hosts : [];
  const pins = new Map<number, PlannedPin>();
  for (const { first, last, why, forGood = false } of retired) {
    for (let workerId = first; workerId <= last; workerId++) {
      pins.set(workerId, { workerId, reason: clipped(pinMark + why), forGood });
    }
  }
  for (const [workerId, [first, ...others]] of grouped(hosts, ({ workerId }) => workerId)) {
    if (first === undefined) continue;
    const { address: ip, usedUntil, renumbered } = first;
    const owner = ip === undefined || renumbered !== undefined || others.length > 0 ? undefined : { ip, usedUntil };
    const names = [first, ...others].map(hostText).join(", ");
    const forGood = pins.get(workerId)?.forGood ?? false;
    const used = owner === undefined ? "retired, used by" : "used by";
    pins.set(workerId, { workerId, reason: clipped(`${pinMark}${used} ${names}`), owner, forGood });
  }
  return pins;
}

/** Items by their common key. */
export function grouped<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key) ?? [];
    group.push(item);
    groups.set(key, group);
  }
  return groups;
}

/** A host for people: `orders-1 (10.0.0.7)`. */
export function hostText({ name, address }: Pick<Maker, "name" | "address">): string {
  return address === undefined || address === name ? name : `${name} (${address})`;
}

/** A text, cut to the longest reason of a pin. */
function clipped(text: string): string {
  const plain = printable(text);
  return plain.length <= 200 ? plain : `${plain.slice(0, 199)}…`;
}

/** Refuses a plan for another namespace or layout. @throws SnowleaseError LAYOUT_MISMATCH, CONFIG_INVALID */
export function checkPlan({ namespace, layout }: Plan, named: string | undefined, stored: string): void {
  if (named !== undefined && named !== namespace) {
    throw configInvalid(
      `The plan is for namespace \`${namespace}\`, and \`${named}\` was named: leave that out, or name another plan.`,
    );
  }
  if (layout === stored) return;
  throw new SnowleaseError(
    "LAYOUT_MISMATCH",
    `The plan is for the layout ${layout}, and namespace \`${namespace}\` has ${stored}: plan again for a namespace that has the plan's layout, or make a new one with \`snowlease init --namespace NAME --layout ${layout}\`.`,
    { stored, asked: layout },
  );
}
