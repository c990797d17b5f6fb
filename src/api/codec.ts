import type { Checkpoint, HistoryRow, HolderLabel, Pin, Recents, WorkerRecord, Turns } from "../rule/registry.ts";
import { mostSentTurns } from "../rule/turn.ts";
import { hasWindow } from "../rule/window.ts";
import type { Optional } from "./schema.ts";

/* The port's records as flat JSON, and back. */

export interface RecentsJson {
  /** Base64. */
  readonly recent?: string | undefined;
  readonly recentFrom?: number | undefined;
}

export interface CheckpointJson {
  readonly lastTimestamp?: number | undefined;
  readonly lastSequence?: number | undefined;
}

export interface WorkerJson
  extends
    Omit<WorkerRecord, "from" | "until" | "recents" | "checkpoint" | "holder">,
    Optional<HolderLabel>,
    RecentsJson,
    CheckpointJson {
  /** Null, like `until`, if no window is known. */
  readonly from: number | null;
  readonly until: number | null;
}

export interface PinJson extends Pick<Pin, "reason"> {
  readonly owner?: string | undefined;
  readonly usedUntil?: number | undefined;
}

export interface HistoryJson extends Omit<HistoryRow, "holder">, HolderLabel {}

/** Recents as two JSON fields, or no fields without recents. */
export function recentsJson(recents: Recents | undefined): RecentsJson {
  if (recents === undefined) return {};
  return { recent: Buffer.from(recents.bytes).toString("base64"), recentFrom: recents.from };
}

export function recentsOf({ recent, recentFrom }: RecentsJson): Recents | undefined {
  if (recent === undefined || recentFrom === undefined) return undefined;
  return { from: recentFrom, bytes: Uint8Array.from(Buffer.from(recent, "base64")) };
}

export function checkpointJson(checkpoint: Checkpoint | undefined): CheckpointJson {
  if (checkpoint === undefined) return {};
  return { lastTimestamp: checkpoint.timestamp, lastSequence: checkpoint.sequence };
}

function checkpointOf({ lastTimestamp, lastSequence }: CheckpointJson): Checkpoint | undefined {
  if (lastTimestamp === undefined || lastSequence === undefined) return undefined;
  return { timestamp: lastTimestamp, sequence: lastSequence };
}

/** Turns without the ones above the API's limit. No registry reads more. */
export function turnsJson({ turn, nextTurn, sentTurns }: Turns): Turns {
  return { turn, nextTurn, sentTurns: sentTurns?.slice(0, mostSentTurns) };
}

export function workerJson({ holder, checkpoint, recents, ...rest }: WorkerRecord): WorkerJson {
  const window = hasWindow(rest) ? {} : { from: null, until: null };
  return { ...rest, ...window, ...holder, ...checkpointJson(checkpoint), ...recentsJson(recents) };
}

export function workerOf(json: WorkerJson): WorkerRecord {
  const { recent: _, recentFrom: __, lastTimestamp: ___, lastSequence: ____, host, ip, pid, instance, ...rest } = json;
  const labelled = host !== undefined && ip !== undefined && pid !== undefined && instance !== undefined;
  return {
    ...rest,
    from: rest.from ?? 0,
    until: rest.until ?? 0,
    recents: recentsOf(json),
    checkpoint: checkpointOf(json),
    holder: labelled ? { host, ip, pid, instance } : undefined,
  };
}

export function historyJson({ holder, ...rest }: HistoryRow): HistoryJson {
  return { ...rest, ...holder };
}

export function historyOf({ host, ip, pid, instance, ...rest }: HistoryJson): HistoryRow {
  return { ...rest, holder: { host, ip, pid, instance } };
}

export function pinJson({ reason, owner }: Omit<Pin, "workerId">): PinJson {
  return { reason, owner: owner?.ip, usedUntil: owner?.usedUntil };
}

export function pinOf({ reason, owner, usedUntil }: PinJson): Omit<Pin, "workerId"> {
  return { reason, owner: owner === undefined ? undefined : { ip: owner, usedUntil } };
}
