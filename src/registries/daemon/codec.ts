import { StoreFile } from "../../store-file.ts";
import type { Checkpoint, Grant, HistoryRow, Recents, WorkerRecord } from "../../rule/registry.ts";
import { hasWindow } from "../../rule/window.ts";
import type { ClaimAnswer, HistoryJson, WorkerJson } from "./answers.ts";

/* The port's records as flat JSON, and back. */

/** Recents as two JSON fields; none when there are none. */
export function recentsJson(recents: Recents | undefined): { recent?: string; recentFrom?: number } {
  if (recents === undefined) return {};
  return { recent: Buffer.from(recents.bytes).toString("base64"), recentFrom: recents.from };
}

/** Recents from their two JSON fields. */
function recentsOf(json: { recent?: string | undefined; recentFrom?: number | undefined }): Recents | undefined {
  const { recent, recentFrom } = json;
  if (recent === undefined || recentFrom === undefined) return undefined;
  return { from: recentFrom, bytes: Uint8Array.from(Buffer.from(recent, "base64")) };
}

/** A checkpoint as two JSON fields. */
export function checkpointJson(checkpoint: Checkpoint | undefined): { lastTimestamp?: number; lastSequence?: number } {
  if (checkpoint === undefined) return {};
  return { lastTimestamp: checkpoint.timestamp, lastSequence: checkpoint.sequence };
}

function checkpointOf({ lastTimestamp, lastSequence }: WorkerJson): Checkpoint | undefined {
  if (lastTimestamp === undefined || lastSequence === undefined) return undefined;
  return { timestamp: lastTimestamp, sequence: lastSequence };
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

export function grantOf(json: ClaimAnswer): Grant {
  const { workerId, fence, from, until, clock, rollback, shared, file } = json;
  const recents = recentsOf(json);
  const store = file && new StoreFile({ path: file.path, device: BigInt(file.device), inode: BigInt(file.inode) });
  return {
    outcome: "granted",
    workerId,
    fence,
    from,
    until,
    clock,
    ...(recents !== undefined && { recents }),
    ...(rollback !== undefined && { rollback }),
    ...(shared !== undefined && { shared }),
    // In another file system (a container's), the path is another file's, or none.
    ...(store?.state === "same" && { store }),
  };
}
