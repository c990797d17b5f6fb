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

/** A page of workers; `next` goes into `after` for the next one. */
interface WorkersAnswer {
  readonly workers: readonly WorkerJson[];
  readonly next?: number | undefined;
}

interface HistoryQuery extends HistoryRange {
  readonly before?: number | undefined;
}

/** A page of history; `next` goes into `before` for the older ones. */
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

export const record: Schema<WorkerJson> = answer({
  workerId,
  state: z.enum(states),
  fence: z.int(),
  from: z.int().nullable().describe("Null, like `until`, where no window is known."),
  until: z.int().nullable(),
  seenClock: z.int(),
  clean: z.boolean(),
  recent: z.base64().optional(),
  recentFrom: z.int().optional(),
  lastTimestamp: z.int().optional(),
  lastSequence: z.int().optional(),
  ...z.object(label).partial().shape,
  claimedAt: z.int().optional(),
  releasedAt: z.int().optional(),
  pinned: z.string().optional(),
  owner: z.string().optional(),
  marked: z.boolean().describe("True where a free number looks taken to Java processes of westid.").optional(),
});

export const historyRow: Schema<HistoryJson> = answer({
  workerId,
  fence: z.int(),
  from: z.int(),
  until: z.int(),
  continuedFrom: z.int().optional(),
  ...label,
  claimedAt: z.int(),
  endedAt: z.int().optional(),
  end: z.enum(["released", "forced", "reset", "taken-over"]).optional(),
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
