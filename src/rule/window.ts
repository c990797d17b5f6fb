import { checkLayout, checkSkew, checkWindow, type NamespaceInfo } from "./limits.ts";
import { isIn } from "../id/pool-bounds.ts";
import { configInvalid, shown, SnowleaseError } from "../id/errors.ts";
import type {
  Checkpoint,
  ClaimRequest,
  ForceReleased,
  ForceReleaseRequest,
  Refusal,
  ReleaseRequest,
  RenewRequest,
  WorkerRecord,
  WorkerState,
} from "./registry.ts";

/*
 * The rule: a lease is a window [from, until) of embedded time, and the windows granted for one worker ID never overlap. These
 * functions and those of pins (`pin.ts`) are the whole rule. A registry runs them inside its atomic step: a stored record and a
 * request go in, the record to store comes out. Redis repeats the rule in Lua; the conformance suite compares the two.
 */

/** The record that a registry stores for one worker ID. */
export interface Stored extends Omit<WorkerRecord, "state" | "marked"> {
  /** `storedToken` of the holder's token. Undefined: no holder. */
  readonly token?: string | undefined;
  /** The present or last holder knows every sequence used from this time on, Unix ms: its recents may begin here. */
  readonly knownFrom: number;
  /** The first time that the claim could use, Unix ms, if a later era has raised `from`. The history shows it. */
  readonly began?: number | undefined;
  /** The era in which a holder last wrote it: `Era.era`. */
  readonly era?: string | undefined;
  /** How many renewals were accepted under this fence. Default 0. */
  readonly renewals?: number | undefined;
  /** The turn of the last renewal under this fence: `Turns.nextTurn`. */
  readonly turn?: string | undefined;
}

/**
 * A clock that is behind by less than this, ms, was not set back: requests of one host can overtake each other. This decides wording only.
 */
const overtaking = 50;

/** Refuses a claim that this namespace cannot serve, whatever its pool has free. */
export function checkClaim(request: ClaimRequest, clock: number, info: NamespaceInfo): void {
  const { workerId, pool } = request;
  checkLayout(request.namespace, request.layout, info);
  checkWindow(request.window, info);
  if (workerId !== undefined && !isIn(pool, workerId)) {
    throw configInvalid(
      `Expected \`workerId\` to be an integer from ${pool.first} to ${pool.last} (the pool), got ${shown(workerId)}.`,
    );
  }
  checkSkew(request.clock, clock, info);
}

/** Whether the record has a holder whose window has not passed. */
export function isLive(record: Stored, clock: number): boolean {
  return record.token !== undefined && record.until > clock;
}

/** Whether this claim may get this worker ID now. */
export function isFree(record: Stored, request: ClaimRequest, clock: number): boolean {
  if (isPinnedForOthers(record, request)) return false;
  // Released or never claimed, and the owner's window begins later in any case.
  if (record.owner !== undefined && (record.clean || record.fence === 0)) return true;
  if (record.until <= Math.min(request.clock, clock)) return true;
  if (!record.clean) return false;
  // Released cleanly: the new holder must be able to use it at once (ahead of its clock, in lead mode) or after the recents.
  const { clock: shows, lead = 0 } = request;
  return record.until <= shows + lead || (inherits(record, request) && shows >= record.knownFrom);
}

function isPinnedForOthers({ pinned, owner }: Stored, { holder }: ClaimRequest): boolean {
  return pinned !== undefined && (owner === undefined || owner !== holder.ip);
}

function inherits(record: Stored, request: ClaimRequest): boolean {
  // The owner may have used it without a lease since.
  if (record.owner !== undefined) return false;
  return record.clean && record.recents !== undefined && request.continues !== false;
}

/** The record after this claim. The caller has checked that the worker ID is free. */
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
  // The recents move to the new holder in the same step. They stay stored, so that a repeated claim gets the same grant.
  const recents = record && inherits(record, request) ? record.recents : undefined;
  return {
    workerId,
    fence: (record?.fence ?? 0) + 1,
    token: request.token,
    from,
    // A window that begins later is as long as others.
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

/** How far the holder's clock is behind the last clock seen of its host, ms; undefined if it is not behind. */
export function rollbackOf(record: Stored | undefined, request: ClaimRequest, info: NamespaceInfo): number | undefined {
  if (record === undefined) return undefined;
  const behind = record.seenClock - request.clock;
  const tolerated = record.holder?.host === request.holder.host ? overtaking : info.maxClockSkew;
  return behind > tolerated ? behind : undefined;
}

/** The refusal of a wanted worker ID that is not free. */
export function refusalOf(record: Stored, request: ClaimRequest, clock: number, info: NamespaceInfo): Refusal {
  const { workerId, pinned = "", until, holder } = record;
  if (isPinnedForOthers(record, request)) return { outcome: "pinned", workerId, reason: pinned, clock };
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

/** Whether the request names the present claim. */
export function isHolders(record: Stored | undefined, key: { fence: number; token: string }): record is Stored {
  return record !== undefined && record.token === key.token && record.fence === key.fence;
}

/** The record after a renewal by its holder. @throws SnowleaseError CONFIG_INVALID for an impossible checkpoint. */
export function renewed(record: Stored, request: RenewRequest, clock: number): Stored {
  checkCheckpoint(record, request.checkpoint);
  return {
    ...record,
    until: Math.max(record.until, Math.max(request.clock, clock) + request.window),
    seenClock: request.clock,
    // The holder has read its recents: the registry does not send them again.
    recents: undefined,
    checkpoint: laterOf(record.checkpoint, request.checkpoint),
    turn: request.nextTurn ?? record.turn,
  };
}

/** Refuses a checkpoint outside the holder's window: with a wrong one, a release could close the window before times that were used. */
function checkCheckpoint({ workerId, knownFrom, until }: Stored, checkpoint: Checkpoint | undefined): void {
  if (checkpoint === undefined || (checkpoint.timestamp >= knownFrom && checkpoint.timestamp < until)) return;
  throw configInvalid(
    `Expected the checkpoint of worker ${workerId} to be from ${knownFrom} to before ${until} (its window, Unix ms), got ${shown(checkpoint.timestamp)}; leave it out where nothing was used.`,
  );
}

function laterOf(a: Checkpoint | undefined, b: Checkpoint | undefined): Checkpoint | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.timestamp > a.timestamp || (b.timestamp === a.timestamp && b.sequence > a.sequence) ? b : a;
}

/** The record after a release by its holder. @throws SnowleaseError CONFIG_INVALID for an impossible usage. */
export function released(record: Stored, request: ReleaseRequest, clock: number): Stored {
  const { used } = request;
  const ended = { ...record, token: undefined, recents: undefined, seenClock: request.clock, releasedAt: clock };
  if (used === undefined) return { ...ended, clean: false };
  checkCheckpoint(record, used.checkpoint);
  // The window must contain each tick that the holder reported as used.
  const checkpoint = laterOf(record.checkpoint, used.checkpoint);
  const least = Math.max(record.from, (checkpoint?.timestamp ?? 0) + 1);
  if (!Number.isSafeInteger(used.until) || used.until < least || used.until > record.until) {
    const why = least > record.from ? "past its checkpoint, in the window" : "the window";
    throw configInvalid(
      `Expected \`until\` to be from ${least} to ${record.until} (${why} of worker ${record.workerId}), got ${shown(used.until)}.`,
    );
  }
  if (used.recents !== undefined && !(used.recents.from >= record.knownFrom && used.recents.from <= used.until)) {
    throw configInvalid(
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
 * The record after a claim was ended by force. The window stays closed unless an operator resets it. A reset never opens times that were
 * reported as used.
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

/** Refuses a reset without `fence`: it could arrive late and open the window of a newer claim. */
export function checkReset({ workerId, fence, resetWindow = false }: ForceReleaseRequest): void {
  if (!resetWindow || fence !== undefined) return;
  throw configInvalid(
    `Expected \`resetWindow\` of worker ${workerId} together with \`fence\`, which names the claim to end; without it, a late request could reset a newer claim.`,
  );
}

/** The answer to a forced release that changes nothing; undefined if the release may proceed. */
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

/** A record for people: with its state, without its token. */
export function shownRecord(record: Stored, clock: number): WorkerRecord {
  const { token: _, knownFrom: __, began: ___, era: ____, renewals: _____, turn: ______, ...rest } = record;
  return { ...rest, state: stateOf(record, clock) };
}

/** The same, if the store still shows the worker ID as taken to programs without a window. */
export function shownMarked(record: WorkerRecord): WorkerRecord {
  return record.state === "free" ? { ...record, marked: true } : record;
}

/** live, resting, free or pinned, by the registry's clock. */
export function stateOf(record: Stored, clock: number): Exclude<WorkerState, "foreign"> {
  if (isLive(record, clock)) return "live";
  if (record.pinned !== undefined) return "pinned";
  return record.until > clock && !record.clean ? "resting" : "free";
}

/** False if the worker ID was only pinned, or used by programs without a window. */
export function hasWindow({ until }: Pick<WorkerRecord, "until">): boolean {
  return until > 0;
}

/** The error of an operation on an unknown namespace. */
export function noNamespace(namespace: string): SnowleaseError {
  const advice = `create it with \`snowlease init --namespace ${namespace}\``;
  return new SnowleaseError("NOT_FOUND", `This registry has no namespace \`${namespace}\`; ${advice}.`);
}
