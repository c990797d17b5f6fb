import { shown, SnowleaseError, timeText } from "../id/errors.ts";
import type {
  Checkpoint,
  ClaimRequest,
  ForceReleased,
  ForceReleaseRequest,
  Grant,
  HolderLabel,
  NamespaceInfo,
  Recents,
  Refusal,
  ReleaseRequest,
  RenewRequest,
  WorkerRecord,
  WorkerState,
} from "./registry.ts";

/*
 * The rule: a lease is a window [from, until) of embedded time, and the windows ever granted for one worker ID never overlap.
 * These functions, with those of pins (`pin.ts`), are all of it, for every registry that can run them inside its atomic step.
 * They read no clock and keep no state: a stored record and a request go in, the record to store comes out. A registry that
 * decides inside its own store (Redis) says the same in that store's language and is held to it by the conformance suite.
 */

/** What a registry stores for one worker ID. */
export interface Stored {
  readonly workerId: number;
  readonly fence: number;
  /** Undefined: nobody's. */
  readonly token?: string | undefined;
  readonly from: number;
  readonly until: number;
  readonly seenClock: number;
  readonly clean: boolean;
  /** From where on the present (or last) holder knows every sequence that was used: where its recents may begin. */
  readonly knownFrom: number;
  readonly recents?: Recents | undefined;
  readonly checkpoint?: Checkpoint | undefined;
  readonly holder?: HolderLabel | undefined;
  readonly claimedAt?: number | undefined;
  readonly releasedAt?: number | undefined;
  readonly pinned?: string | undefined;
  /** The address for which it is pinned. */
  readonly owner?: string | undefined;
}

/**
 * Differences below this between a claimer's clock and what was last seen of its host are two requests that overtook each
 * other, not a clock that was turned back. Only the wording of a refusal depends on it. ms.
 */
const overtaking = 50;

/** Refuses a request whose clock is too far from the registry's. */
export function checkSkew(holderClock: number, clock: number, info: NamespaceInfo): void {
  const skew = holderClock - clock;
  if (Math.abs(skew) <= info.maxClockSkew) return;
  throw new SnowleaseError(
    "CLOCK_SKEW",
    `The holder's clock shows ${timeText(holderClock)}, the registry's ${timeText(clock)}: ${Math.abs(skew)} ms ${skew > 0 ? "ahead" : "behind"}, ` +
      `and at most ${info.maxClockSkew} ms is tolerated; set the clock of the one that is wrong.`,
    { holderClock, registryClock: clock, maxClockSkew: info.maxClockSkew },
  );
}

/** Refuses a claim that this namespace cannot serve, whatever is free. */
export function checkClaim(request: ClaimRequest, clock: number, info: NamespaceInfo): void {
  const { workerId, pool } = request;
  checkLayout(request.namespace, request.layout, info);
  checkWindow(request.window, info);
  if (workerId !== undefined && !(Number.isInteger(workerId) && workerId >= pool.first && workerId <= pool.last)) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`workerId\` to be an integer from ${pool.first} to ${pool.last} (the pool), got ${shown(workerId)}.`,
    );
  }
  checkSkew(request.clock, clock, info);
}

/** Refuses a layout other than the one that the namespace was created with. */
export function checkLayout(namespace: string, layout: string, info: NamespaceInfo): void {
  if (layout === info.layout) return;
  throw new SnowleaseError(
    "LAYOUT_MISMATCH",
    `Namespace \`${namespace}\` has the layout ${info.layout}, and this process asks with ${layout}: ` +
      `their IDs could be equal; set the same layout, or use another namespace.`,
    { stored: info.layout, asked: layout },
  );
}

/** Refuses a window longer than the namespace allows. */
export function checkWindow(window: number, info: NamespaceInfo): void {
  if (Number.isSafeInteger(window) && window >= 1 && window <= info.maxWindow) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`window\` to be from 1 to ${info.maxWindow} ms (the namespace's maxWindow), got ${shown(window)}; ask for a shorter one.`,
  );
}

/** Refuses limits that differ from those that a namespace was created with. */
export function checkLimits(namespace: string, asked: Partial<NamespaceInfo>, info: NamespaceInfo): void {
  for (const name of ["maxWindow", "maxClockSkew"] as const) {
    const value = asked[name];
    if (value === undefined || value === info[name]) continue;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Namespace \`${namespace}\` was created with ${name} ${info[name]} ms, got ${shown(value)}: leave the option out, or use another namespace.`,
    );
  }
}

/** Live: somebody's, and the registry's clock has not passed the end of the window. */
export function isLive(record: Stored, clock: number): boolean {
  return record.token !== undefined && record.until > clock;
}

/** Whether this claim may have this worker ID now. */
export function isFree(record: Stored, request: ClaimRequest, clock: number): boolean {
  if (isKept(record, request)) return false;
  // Nobody's, and the owner's window begins later anyway.
  if (record.owner !== undefined && (record.clean || record.fence === 0)) return true;
  if (record.until <= Math.min(request.clock, clock)) return true;
  if (!record.clean) return false;
  // Given back to the tick: the claimer need only be able to use it, at once (ahead of its clock, where it leads that) or behind the recents.
  const { clock: shows, lead = 0 } = request;
  return record.until <= shows + lead || (inherits(record, request) && shows >= record.knownFrom);
}

/** Whether it is pinned, and not for this claimer. */
function isKept({ pinned, owner }: Stored, { holder }: ClaimRequest): boolean {
  return pinned !== undefined && (owner === undefined || owner !== holder.ip);
}

function inherits(record: Stored, request: ClaimRequest): boolean {
  // An owner may have used the number without a lease since.
  if (record.owner !== undefined) return false;
  return record.clean && record.recents !== undefined && request.continues !== false;
}

/** The record after this claim. Whether the worker ID is free was asked before. */
export function claimed(
  record: Stored | undefined,
  workerId: number,
  request: ClaimRequest,
  clock: number,
  info: NamespaceInfo,
): Stored {
  const until = record?.until ?? 0;
  const opens = clock + (record?.owner === undefined ? -1 : 1) * info.maxClockSkew;
  const from = Math.max(until, opens);
  // The right to continue moves to the new holder in the same step: it stays readable for a repeated claim, and nobody else's.
  const recents = record !== undefined && inherits(record, request) ? record.recents : undefined;
  return {
    workerId,
    fence: (record?.fence ?? 0) + 1,
    token: request.token,
    from,
    // A window that begins later is as long as any other.
    until: Math.max(until, Math.max(request.clock, clock, opens) + request.window),
    seenClock: request.clock,
    clean: false,
    knownFrom: recents?.from ?? from,
    recents,
    holder: request.holder,
    claimedAt: clock,
    pinned: record?.pinned,
    owner: record?.owner,
  };
}

/** What to answer to the claim whose record this is, the first time and each time it is repeated. */
export function grantOf(record: Stored, clock: number, rollback?: number): Grant {
  const { workerId, fence, from, until, recents } = record;
  return {
    outcome: "granted",
    workerId,
    fence,
    from,
    until,
    clock,
    ...(recents !== undefined && { recents }),
    ...(rollback !== undefined && { rollback }),
  };
}

/** How far the claimer's clock is behind what was last seen of its host, or undefined. */
export function rollbackOf(record: Stored, request: ClaimRequest, info: NamespaceInfo): number | undefined {
  const behind = record.seenClock - request.clock;
  const tolerated = record.holder?.host === request.holder.host ? overtaking : info.maxClockSkew;
  return behind > tolerated ? behind : undefined;
}

/** Why a wanted worker ID that is not free cannot be had now. */
export function refusalOf(record: Stored, request: ClaimRequest, clock: number, info: NamespaceInfo): Refusal {
  const { workerId, pinned = "", until, holder } = record;
  if (isKept(record, request)) return { outcome: "pinned", workerId, reason: pinned, clock };
  const behind = rollbackOf(record, request, info);
  if (behind !== undefined) return { outcome: "rollback", workerId, behind, freeAt: until, clock };
  return {
    outcome: "held",
    workerId,
    live: isLive(record, clock),
    holder: holder ?? { host: "", ip: "", pid: 0, instance: "" },
    since: record.claimedAt ?? clock,
    freeAt: until,
    clock,
  };
}

function isHolders(record: Stored | undefined, key: { fence: number; token: string }): record is Stored {
  return record !== undefined && record.token === key.token && record.fence === key.fence;
}

/**
 * The record after this renewal, or undefined when the worker ID is no longer the asker's. CONFIG_INVALID, and nothing to store,
 * for a checkpoint that this holder cannot have reached.
 */
export function renewed(record: Stored | undefined, request: RenewRequest, clock: number): Stored | undefined {
  if (!isHolders(record, request)) return undefined;
  checkCheckpoint(record, request.checkpoint);
  return {
    ...record,
    until: Math.max(record.until, Math.max(request.clock, clock) + request.window),
    seenClock: request.clock,
    // From here on the holder's own memory is the only one: what it inherited may be stale in an hour.
    recents: undefined,
    checkpoint: laterOf(record.checkpoint, request.checkpoint),
  };
}

/**
 * Refuses a checkpoint outside of what this holder may use: no ID of its bears such a timestamp. Whoever says so took it for
 * another unit, or for another worker ID's, and would close its window before what it did use.
 */
function checkCheckpoint({ workerId, knownFrom, until }: Stored, checkpoint: Checkpoint | undefined): void {
  if (checkpoint === undefined || (checkpoint.timestamp >= knownFrom && checkpoint.timestamp < until)) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected the checkpoint of worker ${workerId} to be from ${knownFrom} to before ${until} (what it may use, Unix ms), got ${shown(checkpoint.timestamp)}; leave it out where nothing was used.`,
  );
}

function laterOf(a: Checkpoint | undefined, b: Checkpoint | undefined): Checkpoint | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.timestamp > a.timestamp || (b.timestamp === a.timestamp && b.sequence > a.sequence) ? b : a;
}

/**
 * The record after this release; the record itself when it was released before; undefined when the worker ID is no longer
 * the asker's. CONFIG_INVALID, and nothing to store, for a usage that this holder cannot have had.
 */
export function released(record: Stored | undefined, request: ReleaseRequest, clock: number): Stored | undefined {
  const { used } = request;
  if (record !== undefined && record.token === undefined && record.fence === request.fence) {
    // An operator may have ended the claim in between: what was used can then no longer be told.
    return record.clean || used === undefined ? record : undefined;
  }
  if (!isHolders(record, request)) return undefined;
  const ended = { ...record, token: undefined, recents: undefined, seenClock: request.clock, releasedAt: clock };
  if (used === undefined) return { ...ended, clean: false };
  checkCheckpoint(record, used.checkpoint);
  // What the holder says binds it: a tick that it has used is inside the window that it closes.
  const checkpoint = laterOf(record.checkpoint, used.checkpoint);
  const least = Math.max(record.from, (checkpoint?.timestamp ?? 0) + 1);
  if (!Number.isSafeInteger(used.until) || used.until < least || used.until > record.until) {
    const why = least > record.from ? "past its checkpoint, in the window" : "the window";
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`until\` to be from ${least} to ${record.until} (${why} of worker ${record.workerId}), got ${shown(used.until)}.`,
    );
  }
  if (used.recents !== undefined && !(used.recents.from >= record.knownFrom && used.recents.from <= used.until)) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`recentFrom\` to be from ${record.knownFrom} to ${used.until} (what the holder of worker ${record.workerId} can know), got ${shown(used.recents.from)}.`,
    );
  }
  return {
    ...ended,
    clean: true,
    until: used.until,
    knownFrom: used.recents?.from ?? used.until,
    recents: used.recents,
    checkpoint,
  };
}

/**
 * The record after an operator ended the claim. The window stays closed, unless the operator vouches for it; and what a holder said
 * that it used stays used, whoever vouches for what.
 */
export function forced(record: Stored, clock: number, resetWindow: boolean): Stored {
  const used = record.clean ? record.until : (record.checkpoint?.timestamp ?? -1) + 1;
  return {
    ...record,
    token: undefined,
    clean: false,
    recents: undefined,
    releasedAt: record.releasedAt ?? clock,
    until: resetWindow ? Math.min(record.until, Math.max(used, clock)) : record.until,
  };
}

/** Refuses a reset of whichever window stands when it arrives: somebody may have claimed it since. */
export function checkReset({ workerId, fence, resetWindow = false }: ForceReleaseRequest): void {
  if (!resetWindow || fence !== undefined) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`resetWindow\` of worker ${workerId} together with \`fence\`, which says whose window; a request that arrives late must not open that of another.`,
  );
}

/** What a forced release answers before anything is changed, or undefined when it may go ahead. */
export function forceRefusal(
  record: Stored | undefined,
  request: ForceReleaseRequest,
  clock: number,
): ForceReleased | undefined {
  checkReset(request);
  if (record === undefined || record.holder === undefined) return { outcome: "absent" };
  const { holder, until } = record;
  const { fence = record.fence, force } = request;
  if (fence !== record.fence) return { outcome: "superseded", fence: record.fence, holder, until };
  if (!force && isLive(record, clock)) return { outcome: "live", holder, until };
  return undefined;
}

/** A record as it is shown to people: with its state, without its token. */
export function shownRecord(record: Stored, clock: number): WorkerRecord {
  const { token: _, knownFrom: __, ...rest } = record;
  return { ...rest, state: stateOf(record, clock) };
}

/** The same where a mark of ours still stands, at which programs that keep no window look. */
export function shownMarked(record: WorkerRecord): WorkerRecord {
  return record.state === "free" ? { ...record, marked: true } : record;
}

/** live, resting, free or pinned, by the registry's clock. */
export function stateOf(record: Stored, clock: number): Exclude<WorkerState, "foreign"> {
  if (isLive(record, clock)) return "live";
  if (record.pinned !== undefined) return "pinned";
  return record.until > clock && !record.clean ? "resting" : "free";
}

/** Whether any times are closed: none are of a number that was only pinned, or that only those took who keep no window. */
export function hasWindow({ until }: Pick<WorkerRecord, "until">): boolean {
  return until > 0;
}

/** For an operation that needs a namespace to be there. */
export function noNamespace(namespace: string): SnowleaseError {
  return new SnowleaseError(
    "NOT_FOUND",
    `This registry has no namespace \`${namespace}\`; create it with \`snowlease init --namespace ${namespace}\`.`,
  );
}
