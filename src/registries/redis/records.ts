import type { HistoryRow, HolderLabel, NamespaceInfo, WorkerRecord } from "../../rule/registry.ts";
import { shownMarked, shownRecord, type Stored } from "../../rule/window.ts";
import { type Fields, maybeNumber, numberOf, textOf } from "./scripts.ts";

/** A record as a script tells it. */
export function recordOf(fields: Fields): Stored {
  const [timestamp, sequence] = [maybeNumber(fields, "lastTimestamp"), maybeNumber(fields, "lastSequence")];
  const [begin, bytes] = [maybeNumber(fields, "recentFrom"), fields.get("recent")];
  return {
    workerId: numberOf(fields, "workerId"),
    fence: maybeNumber(fields, "fence") ?? 0,
    token: optionalText(fields, "token"),
    from: maybeNumber(fields, "from") ?? 0,
    until: numberOf(fields, "until"),
    seenClock: maybeNumber(fields, "seenClock") ?? 0,
    clean: textOf(fields, "clean") === "1",
    knownFrom: maybeNumber(fields, "floor") ?? 0,
    recents: begin === undefined ? undefined : { from: begin, bytes: Uint8Array.from(bytes ?? []) },
    checkpoint: timestamp === undefined ? undefined : { timestamp, sequence: sequence ?? 0 },
    holder: fields.has("host") ? holderOf(fields) : undefined,
    claimedAt: maybeNumber(fields, "claimedAt"),
    releasedAt: maybeNumber(fields, "releasedAt"),
    pinned: optionalText(fields, "pinned"),
    owner: optionalText(fields, "owner"),
  };
}

/** What is fixed for a namespace, as a script tells it. */
export function infoOf(fields: Fields): NamespaceInfo {
  const [maxWindow, maxClockSkew] = [numberOf(fields, "maxWindow"), numberOf(fields, "maxClockSkew")];
  const [until, clock] = [maybeNumber(fields, "quarantine"), maybeNumber(fields, "clock")];
  const lasts = until !== undefined && clock !== undefined && clock < until;
  return { layout: textOf(fields, "layout"), maxWindow, maxClockSkew, ...(lasts && { quarantineUntil: until }) };
}

/** A record as people see it; one that a foreigner has taken shows them. */
export function workerOf(fields: Fields, clock: number): WorkerRecord {
  const record = shownRecord(recordOf(fields), clock);
  const use = optionalText(fields, "use");
  if (use !== undefined) return { ...record, state: "foreign", holder: foreignHolder(use) };
  return fields.has("own") ? shownMarked(record) : record;
}

/** Who stands at `use:N` and is none of ours: `{pid}x{ip}x{hostname}`, as westid writes it. */
export function foreignHolder(use: string): HolderLabel {
  const [, pid = "", ip = "", host = ""] = /^(\d{1,10})x([^x]*)x(.*)$/s.exec(use) ?? [];
  return { host: pid === "" ? use.slice(0, 255) : host, ip, pid: Number(pid), instance: "" };
}

/** A row of the history. */
export function historyRowOf(fields: Fields): HistoryRow {
  const end = optionalText(fields, "end") as HistoryRow["end"];
  return {
    workerId: numberOf(fields, "workerId"),
    fence: numberOf(fields, "fence"),
    from: numberOf(fields, "from"),
    until: numberOf(fields, "until"),
    continuedFrom: maybeNumber(fields, "continuedFrom"),
    holder: holderOf(fields),
    claimedAt: numberOf(fields, "claimedAt"),
    endedAt: maybeNumber(fields, "endedAt"),
    end,
  };
}

function holderOf(fields: Fields): HolderLabel {
  const [host, ip, instance] = ["host", "ip", "instance"].map((name) => textOf(fields, name)) as [
    string,
    string,
    string,
  ];
  return { host, ip, pid: maybeNumber(fields, "pid") ?? 0, instance };
}

function optionalText(fields: Fields, name: string): string | undefined {
  return fields.has(name) ? textOf(fields, name) : undefined;
}
