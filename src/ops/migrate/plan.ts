import { z } from "zod";
import { shown, SnowleaseError } from "../../core/errors.ts";
import { Layout } from "../../core/layout.ts";
import type { Registry, WorkerRecord } from "../../core/registry.ts";
import { listWorkers } from "../workers.ts";
import { type Findings, type Maker, type RetiredRange, type SourceKind, sourceKinds } from "./source.ts";
import { plainAddress } from "./addresses.ts";

/** A host that makes IDs without a lease, and what becomes of its worker ID. */
export interface PlannedHost extends Maker {
  /** Why it gets another number when it is moved; absent: it goes on with its own. */
  readonly renumbered?: string | undefined;
}

/** What is to become of the worker IDs of a fleet. */
export interface Plan {
  readonly snowlease: "migration plan";
  readonly version: 1;
  /** When its source was read: whoever has claimed since has moved. Unix ms. */
  readonly createdAt: number;
  readonly namespace: string;
  readonly layout: string;
  readonly from: SourceKind;
  /** Where it was read: for people, without a password. */
  readonly source: string;
  /** Those who collide come first. */
  readonly hosts: readonly PlannedHost[];
  /** Worker IDs that nobody may have, besides those of the hosts. */
  readonly retired: readonly RetiredRange[];
}

/** A worker ID that is used by more than one. */
interface Collision {
  readonly workerId: number;
  readonly hosts: readonly string[];
}

/** What a plan comes to, for people. */
export interface Outlook {
  readonly collisions: readonly Collision[];
  /** Worker IDs of the namespace. */
  readonly size: number;
  /** Hosts that go on with their own number. */
  readonly kept: number;
  /** Hosts that get another one. */
  readonly renumbered: number;
  /** Worker IDs that the plan pins for nobody. */
  readonly retired: number;
  /** Worker IDs that are in use or pinned in the registry today, besides. Undefined where none was looked at. */
  readonly taken?: number | undefined;
  /** What is left to claim. */
  readonly left: number;
}

const text = z
  .string()
  .regex(/^[^\u0000-\u001f\u007f]{1,300}$/, "has to be 1 to 300 characters without control characters");
const workerId = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);
const time = z.int().min(0).max(8.64e15);

const schema: z.ZodType<Plan> = z.strictObject({
  snowlease: z.literal("migration plan"),
  version: z.literal(1),
  createdAt: time,
  namespace: z.string().regex(/^[a-z][a-z0-9_]{0,31}$/, "has to match [a-z][a-z0-9_]{0,31}"),
  layout: text,
  from: z.enum(sourceKinds),
  source: text,
  hosts: z.array(
    z.strictObject({
      workerId,
      name: text,
      address: z
        .string()
        .refine((address) => plainAddress(address) === address, "has to be an address")
        .exactOptional(),
      usedUntil: time.exactOptional(),
      renumbered: text.exactOptional(),
    }),
  ),
  retired: z.array(
    z
      .strictObject({ first: workerId, last: workerId, why: text, forGood: z.boolean().exactOptional() })
      .refine(({ first, last }) => first <= last, "has to have `first` <= `last`"),
  ),
});

/** What a plan is made for. */
export interface PlanRequest {
  readonly namespace: string;
  readonly layout: Layout;
  readonly from: SourceKind;
  readonly source: string;
  /** Unix ms. */
  readonly now: number;
  /** Looked at where there is one: what is taken there already. */
  readonly registry?: Registry | undefined;
}

/** Makes a plan of what a source holds. Changes nothing. */
export async function makePlan(
  findings: Findings,
  { namespace, layout, from, source, now, registry }: PlanRequest,
): Promise<{ readonly plan: Plan; readonly outlook: Outlook }> {
  const { last } = layout.pool;
  const tooHigh = findings.makers.find(({ workerId }) => workerId > last);
  if (tooHigh !== undefined) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected worker IDs from 0 to ${last} (the layout ${layout.fingerprint}), got ${tooHigh.workerId} of ${tooHigh.name} in ${source}; name the layout that this fleet uses.`,
    );
  }
  const taken = registry === undefined ? undefined : await takenIn(registry, namespace);
  const users = grouped(findings.makers, ({ workerId }) => workerId);
  const atAddress = grouped(findings.makers, ({ address }) => address);
  const others = (maker: Maker): readonly string[] => {
    const holder = taken?.get(maker.workerId)?.holder;
    const held =
      holder !== undefined && holder.ip !== maker.address ? [`${holder.host} (${holder.ip}), in the registry`] : [];
    return [...(users.get(maker.workerId) ?? []).filter((each) => each !== maker).map(hostText), ...held];
  };
  const hosts = findings.makers.map((maker): PlannedHost & { readonly collides: boolean } => {
    const rivals = others(maker);
    const renumbered = whyRenumbered(maker, rivals, findings, atAddress.get(maker.address)?.length ?? 0);
    return { ...maker, ...(renumbered !== undefined && { renumbered }), collides: rivals.length > 0 };
  });
  const sorted = hosts.toSorted((a, b) => Number(b.collides) - Number(a.collides) || a.workerId - b.workerId);
  const plain = (text: string): string => text.replace(/[\p{Cc}\p{Cs}]/gu, "?").slice(0, 300);
  const plan: Plan = {
    snowlease: "migration plan",
    version: 1,
    createdAt: now,
    namespace,
    layout: layout.fingerprint,
    from,
    source,
    hosts: sorted.map(({ collides: _, address, usedUntil, ...host }) => ({
      ...host,
      name: plain(host.name),
      ...(address !== undefined && { address }),
      ...(usedUntil !== undefined && { usedUntil }),
    })),
    retired: findings.retired.map((range) => ({ ...range, last: Math.min(range.last, last) })),
  };
  const collided = [...new Set(sorted.filter(({ collides }) => collides).map(({ workerId }) => workerId))];
  const collisions = collided.map((workerId) => {
    const [first] = users.get(workerId) ?? [];
    return { workerId, hosts: first === undefined ? [] : [hostText(first), ...others(first)] };
  });
  return { plan, outlook: { collisions, ...poolAfter(plan, layout, taken) } };
}

/** The number of worker IDs by what becomes of them. */
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
  { retired, takesOver }: Findings,
  atAddress: number,
): string | undefined {
  if (rivals.length > 0) return clipped(`collides with ${rivals.join(", ")}`);
  if (takesOver !== true) return takesOver;
  const range = retired.find(({ first, last }) => maker.workerId >= first && maker.workerId <= last);
  if (range !== undefined) return range.why;
  if (maker.address === undefined) return "its address is not known";
  return atAddress > 1 ? `${atAddress} worker IDs are used at this address` : undefined;
}

/** Worker IDs that somebody has, or that are kept from the pool. */
async function takenIn(registry: Registry, namespace: string): Promise<ReadonlyMap<number, WorkerRecord>> {
  const taken = new Map<number, WorkerRecord>();
  if ((await registry.describe(namespace)) === undefined) return taken;
  for await (const record of listWorkers(registry, namespace)) {
    if (record.state !== "free") taken.set(record.workerId, record);
  }
  return taken;
}

/** A pin that a plan asks for. */
export interface PlannedPin {
  readonly workerId: number;
  readonly reason: string;
  /** For whom; undefined: for nobody. */
  readonly owner?: { readonly ip: string; readonly usedUntil?: number | undefined } | undefined;
  readonly forGood: boolean;
}

/** How the reason of every pin begins that a plan made. */
export const pinMark = "migration: ";

/** The pins that a plan asks for, by worker ID. */
export function pinsOf({ hosts, retired }: Plan): ReadonlyMap<number, PlannedPin> {
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

/** Items by what they have in common. */
export function grouped<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}

/** A host for people: `orders-1 (10.0.0.7)`. */
export function hostText({ name, address }: Pick<Maker, "name" | "address">): string {
  return address === undefined || address === name ? name : `${name} (${address})`;
}

/** As much as the reason of a pin may have. */
function clipped(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Cs}]/gu, "?");
  return plain.length <= 200 ? plain : `${plain.slice(0, 199)}…`;
}

/** A plan as it stands in its file: for people to read, and to check in. */
export function planText(plan: Plan): string {
  return `${JSON.stringify(plan, undefined, 2)}\n`;
}

/**
 * Reads a plan back.
 * @param file for messages.
 * @throws SnowleaseError CONFIG_INVALID that names the field.
 */
export function readPlan(content: string, file: string): Plan {
  const refuse = (rule: string, got: string): never => {
    throw new SnowleaseError("CONFIG_INVALID", `Expected ${rule}, got ${got}; correct ${file}, or make it anew.`);
  };
  let json: unknown;
  try {
    json = JSON.parse(content);
  } catch {
    return refuse("a migration plan (JSON)", shown(content.slice(0, 40)));
  }
  const { success, data, error } = schema.safeParse(json);
  if (!success) {
    const [issue] = error.issues;
    return refuse(
      "a migration plan as `snowlease migrate plan` writes it",
      `${pathText(issue?.path)}: ${issue?.message}`,
    );
  }
  const { pool } = Layout.parse(data.layout);
  const users = new Map<number, PlannedHost>();
  for (const [i, host] of data.hosts.entries()) {
    const { workerId, address, renumbered } = host;
    if (workerId > pool.last) refuse(`\`hosts[${i}].workerId\` from 0 to ${pool.last} (the layout)`, String(workerId));
    const other = users.get(workerId);
    if (other !== undefined && (renumbered === undefined || other.renumbered === undefined)) {
      refuse(`\`hosts[${i}].renumbered\` for worker ${workerId}, which ${hostText(other)} has too`, "nothing");
    }
    if (address === undefined && renumbered === undefined) refuse(`\`hosts[${i}].address\``, "nothing");
    users.set(workerId, host);
  }
  for (const [i, { last }] of data.retired.entries()) {
    if (last > pool.last) refuse(`\`retired[${i}].last\` from 0 to ${pool.last} (the layout)`, String(last));
  }
  return data;
}

/** A field: `hosts[3].address`. */
function pathText(path: readonly PropertyKey[] = []): string {
  const parts = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`));
  return path.length === 0 ? "the whole" : `\`${parts.join("").replace(/^\./, "")}\``;
}

/** What has to be the same where a plan is used. @throws SnowleaseError LAYOUT_MISMATCH, CONFIG_INVALID */
export function checkPlan({ namespace, layout }: Plan, named: string | undefined, stored: string): void {
  if (named !== undefined && named !== namespace) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `The plan is for namespace \`${namespace}\`, and \`${named}\` was named: leave that out, or name another plan.`,
    );
  }
  if (layout === stored) return;
  throw new SnowleaseError(
    "LAYOUT_MISMATCH",
    `The plan is for the layout ${layout}, and namespace \`${namespace}\` has ${stored}: plan again with \`--layout\`.`,
    { stored, asked: layout },
  );
}
