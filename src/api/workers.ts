import { z } from "zod";
import {
  type ForceReleaseRequest,
  type HistoryRange,
  mostPins,
  type WorkersPage,
  type WorkerState,
} from "../rule/registry.ts";
import type { Call } from "./call.ts";
import type { HistoryJson, PinJson, WorkerJson } from "./codec.ts";
import {
  anyTime,
  fence,
  flag,
  integer,
  label,
  maxWorkerId,
  oneOf,
  page,
  printable,
  someOf,
  text,
  time,
  workerId,
} from "./fields.ts";
import { answer, type Optional, parameters, request, type Schema, withPairs } from "./schema.ts";

/** A page of workers. A request with `next` as `after` gets the next page. */
interface WorkersAnswer {
  readonly workers: readonly WorkerJson[];
  readonly next?: number | undefined;
}

interface HistoryQuery extends HistoryRange {
  readonly before?: number | undefined;
}

/** A page of history. A request with `next` as `before` gets older rows. */
interface HistoryAnswer {
  readonly rows: readonly HistoryJson[];
  readonly next?: number | undefined;
}

interface ForceReleaseBody extends Optional<Omit<ForceReleaseRequest, "namespace" | "workerId">> {
  readonly iKnow?: boolean | undefined;
}

interface PinOfMany extends PinJson {
  readonly workerId: number;
}

const states: readonly WorkerState[] = ["live", "resting", "free", "pinned", "foreign"];

const fenceText = "The number that the registry raises with each claim of this worker ID.";

export const record: Schema<WorkerJson> = answer({
  workerId: workerId.describe("The worker ID."),
  state: z
    .enum(states)
    .describe(
      "live: held. resting: released or crashed, and its window has not passed. free: its window has passed. pinned: kept out of the pool. foreign: taken by a program that records no windows.",
    ),
  fence: z.int().describe(fenceText),
  from: z
    .int()
    .nullable()
    .describe(
      "The begin of the window of the present or last claim, Unix ms. Null, like `until`, where no window is known.",
    ),
  until: z.int().nullable().describe("The end of that window, Unix ms."),
  seenClock: z.int().describe("The holder's clock at the last write, Unix ms."),
  clean: z.boolean().describe("True where the last holder told at its release what it used."),
  recent: z
    .base64()
    .describe("The highest sequence of each of the last ticks, in base64: the next holder continues behind them.")
    .optional(),
  recentFrom: z.int().describe("When the first of these ticks begins, Unix ms.").optional(),
  lastTimestamp: z.int().describe("The newest tick that the holder told to have used, Unix ms.").optional(),
  lastSequence: z.int().describe("The highest sequence that it used in that tick.").optional(),
  ...z.object(label).partial().shape,
  claimedAt: z.int().describe("When the present or last holder claimed it, Unix ms.").optional(),
  releasedAt: z.int().describe("When that claim ended, Unix ms.").optional(),
  pinned: z.string().describe("The reason of its pin.").optional(),
  owner: z.string().describe("The address of the host for which it is pinned.").optional(),
  marked: z.boolean().describe("True where a free number looks taken to Java processes of westid.").optional(),
});

export const historyRow: Schema<HistoryJson> = answer({
  workerId: workerId.describe("The worker ID."),
  fence: z.int().describe(fenceText),
  from: z.int().describe("The begin of the window, Unix ms."),
  until: z.int().describe("The end of the window, Unix ms."),
  continuedFrom: z
    .int()
    .describe("The begin of the part that the holder continued, or used before a quarantine, Unix ms.")
    .optional(),
  ...label,
  claimedAt: z.int().describe("When the holder claimed the worker ID, Unix ms."),
  endedAt: z.int().describe("When the claim ended, Unix ms. Absent while it lasts.").optional(),
  end: z
    .enum(["released", "forced", "reset", "taken-over"])
    .describe(
      "How the claim ended. released: its holder ended it. forced: an operator ended it. reset: an operator ended it, and reopened the window. taken-over: the next claim ended it. Absent while it lasts.",
    )
    .optional(),
});

const reasonRule =
  "to be a well-formed string of 1 to 200 characters, not all of them blank, without control characters";
const pinFields = {
  reason: printable(z.string(reasonRule).max(200, reasonRule).regex(/\S/, reasonRule), reasonRule),
  owner: text(45)
    .meta({
      description: "The IPv4 or IPv6 address of the host for which it is kept: a claim with this `ip` gets it.",
      anyOf: [{ format: "ipv4" }, { format: "ipv6" }],
    })
    .optional(),
  usedUntil: time.describe("Until when that host is known to have used it.").optional(),
};

const owned = { usedUntil: "owner" } as const;

export const list: Call<WorkersAnswer, undefined, WorkersPage> = {
  method: "GET",
  path: "/v1/:namespace/workers",
  operation: "listWorkers",
  summary: "Worker IDs that were ever used or are pinned, in ascending order, in pages",
  access: "read",
  query: parameters<WorkersPage>({
    state: oneOf(...states).optional(),
    after: integer(-1, maxWorkerId).describe("Only worker IDs above this one.").optional(),
    limit: page.describe("Default 1000. An answer may hold fewer; look for `next`.").optional(),
  }),
  answer: answer<WorkersAnswer>({
    workers: z.array(record),
    next: z.int().describe("Present when there may be more: the `after` to ask for them with.").optional(),
  }),
  problems: ["NOT_FOUND"],
};

export const read: Call<WorkerJson> = {
  method: "GET",
  path: "/v1/:namespace/workers/:workerId",
  operation: "readWorker",
  summary: "One worker ID",
  access: "read",
  answer: record,
  problems: ["NOT_FOUND"],
};

export const history: Call<HistoryAnswer, undefined, HistoryQuery> = {
  method: "GET",
  path: "/v1/:namespace/workers/:workerId/history",
  operation: "listHolders",
  summary: "The holders of a worker ID: one row for each claim, oldest first; the first page has the newest rows",
  access: "read",
  query: parameters<HistoryQuery>({
    from: anyTime.optional(),
    until: anyTime.optional(),
    before: fence.describe("Only claims of a lower fence.").optional(),
    limit: page.describe("The newest so many. Default 1000. An answer may hold fewer; look for `next`.").optional(),
  }),
  answer: answer<HistoryAnswer>({
    rows: z.array(historyRow),
    next: z.int().describe("Present when there may be more: the `before` to ask for them with.").optional(),
  }),
  problems: ["NOT_FOUND"],
};

export const forceRelease: Call<{ readonly until: number }, ForceReleaseBody> = {
  method: "POST",
  path: "/v1/:namespace/workers/:workerId/release",
  operation: "endClaim",
  summary: "End a holder's claim; its window stays closed",
  access: "admin",
  body: request<ForceReleaseBody>({
    force: flag.describe("End the claim even while its window has not passed.").optional(),
    fence: fence.describe("The claim to end; no other claim is ended. Default: the present one.").optional(),
    resetWindow: flag.describe("Also lower `until` to the registry's clock. Needs `fence` and `iKnow`.").optional(),
    iKnow: flag.describe("Your word that no holder can still use that window.").optional(),
  }).refine(
    ({ resetWindow, iKnow }) => resetWindow !== true || iKnow === true,
    "`resetWindow` lets times be used twice if a holder is left; when you know that there is none, add `iKnow: true`.",
  ),
  answer: answer({ until: z.int() }),
  problems: ["NOT_FOUND", "WORKER_ID_HELD"],
};

export const pin: Call<void, PinJson> = {
  method: "PUT",
  path: "/v1/:namespace/workers/:workerId/pin",
  operation: "pinWorker",
  summary: "Keep a worker ID out of the pool, or for one host",
  access: "admin",
  status: 204,
  body: withPairs(request<PinJson>(pinFields), owned),
  problems: ["NOT_FOUND"],
};

export const unpin: Call = {
  method: "DELETE",
  path: "/v1/:namespace/workers/:workerId/pin",
  operation: "unpinWorker",
  summary: "Put a pinned worker ID back",
  access: "admin",
  status: 204,
  problems: ["NOT_FOUND"],
};

export const pinAll: Call<void, { readonly pins: readonly PinOfMany[] }> = {
  method: "PUT",
  path: "/v1/:namespace/pins",
  operation: "pinWorkers",
  summary: "Keep several worker IDs out of the pool; after a failure some may be pinned, so repeat it",
  access: "admin",
  status: 204,
  body: request({ pins: someOf(withPairs(request<PinOfMany>({ workerId, ...pinFields }), owned), mostPins, "pins") }),
  problems: ["NOT_FOUND", "WORKER_ID_HELD"],
};

export const unpinAll: Call<{ readonly unpinned: readonly number[] }, { readonly workerIds: readonly number[] }> = {
  method: "DELETE",
  path: "/v1/:namespace/pins",
  operation: "unpinWorkers",
  summary: "Put several worker IDs back; worker IDs that are not pinned do not change",
  access: "admin",
  body: request({ workerIds: someOf(workerId, mostPins, "worker IDs") }),
  answer: answer({ unpinned: z.array(z.int()).describe("Those that were pinned.") }),
  problems: ["NOT_FOUND"],
};
