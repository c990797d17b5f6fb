import type { HistoryRow, HolderLabel, LossReason, Lost, Recents, WorkerRecord } from "../../rule/registry.ts";
import type { NamespaceState } from "../../rule/era.ts";
import { shownMarked, shownRecord, type Stored } from "../../rule/window.ts";
import { type AnswerFields, bytesOf, numberOf, optionalNumber, optionalText, textOf } from "./answers.ts";

/** The record in a script's answer. */
export function recordOf(fields: AnswerFields): Stored {
  const [timestamp, sequence] = [optionalNumber(fields, "lastTimestamp"), optionalNumber(fields, "lastSequence")];
  return {
    workerId: numberOf(fields, "workerId"),
    fence: optionalNumber(fields, "fence") ?? 0,
    token: optionalText(fields, "token"),
    from: optionalNumber(fields, "from") ?? 0,
    until: numberOf(fields, "until"),
    seenClock: optionalNumber(fields, "seenClock") ?? 0,
    clean: textOf(fields, "clean") === "1",
    knownFrom: optionalNumber(fields, "knownFrom") ?? 0,
    recents: recentsOf(fields),
    checkpoint: timestamp === undefined ? undefined : { timestamp, sequence: sequence ?? 0 },
    holder: fields.has("host") ? holderOf(fields) : undefined,
    claimedAt: optionalNumber(fields, "claimedAt"),
    releasedAt: optionalNumber(fields, "releasedAt"),
    pinned: optionalText(fields, "pinned"),
    owner: optionalText(fields, "owner"),
  };
}

function recentsOf(fields: AnswerFields): Recents | undefined {
  const from = optionalNumber(fields, "recentFrom");
  return from === undefined ? undefined : { from, bytes: bytesOf(fields.get("recent")) };
}

/** A namespace, from a script's answer. A namespace that does not exist yet has the limits that its claimer would get. */
export function stateOf(fields: AnswerFields): NamespaceState {
  const [maxWindow, maxClockSkew] = [numberOf(fields, "maxWindow"), numberOf(fields, "maxClockSkew")];
  const id = optionalText(fields, "id");
  return {
    info: { ...(id !== undefined && { id }), layout: textOf(fields, "layout"), maxWindow, maxClockSkew },
    era: textOf(fields, "era"),
    quarantineEnd: optionalNumber(fields, "quarantineEnd") ?? 0,
    opensAt: optionalNumber(fields, "opensAt") ?? 0,
    clock: numberOf(fields, "clock"),
  };
}

/** The loss of a claim, from a script's answer. */
export function lossOf(fields: AnswerFields): Lost {
  const reason = optionalText(fields, "reason") as LossReason | undefined;
  const [from, until] = [optionalNumber(fields, "doubtFrom"), optionalNumber(fields, "doubtUntil")];
  const isDoubled = from !== undefined && until !== undefined;
  return { outcome: "lost", reason, ...(isDoubled && { doubt: { from, until } }) };
}

/** A record as operators see it. If another program has the worker ID, that program is the holder. */
export function workerOf(fields: AnswerFields, clock: number): WorkerRecord {
  const record = shownRecord(recordOf(fields), clock);
  const use = optionalText(fields, "use");
  if (use !== undefined) return { ...record, state: "foreign", holder: foreignHolder(use) };
  return fields.has("own") ? shownMarked(record) : record;
}

/** The holder that westid wrote at `use:N`: `{pid}x{ip}x{hostname}`. */
export function foreignHolder(use: string): HolderLabel {
  const [, pid = "", ip = "", host = ""] = /^(\d{1,10})x([^x]*)x(.*)$/s.exec(use) ?? [];
  return { host: pid === "" ? use.slice(0, 255) : host, ip, pid: Number(pid), instance: "" };
}

export function historyRowOf(fields: AnswerFields): HistoryRow {
  const end = optionalText(fields, "end") as HistoryRow["end"];
  return {
    workerId: numberOf(fields, "workerId"),
    fence: numberOf(fields, "fence"),
    from: numberOf(fields, "from"),
    until: numberOf(fields, "until"),
    continuedFrom: optionalNumber(fields, "continuedFrom"),
    holder: holderOf(fields),
    claimedAt: numberOf(fields, "claimedAt"),
    endedAt: optionalNumber(fields, "endedAt"),
    end,
  };
}

function holderOf(fields: AnswerFields): HolderLabel {
  return {
    host: textOf(fields, "host"),
    ip: textOf(fields, "ip"),
    pid: optionalNumber(fields, "pid") ?? 0,
    instance: textOf(fields, "instance"),
  };
}
