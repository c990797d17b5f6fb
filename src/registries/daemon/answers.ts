import { z } from "zod";
import { type ErrorCode, errorCodes } from "../../id/errors.ts";
import type {
  ForceReleased,
  HistoryRow,
  HolderLabel,
  NamespaceInfo,
  Pong,
  Refusal,
  WorkerState,
} from "../../rule/registry.ts";

/*
 * What a daemon answers, as JSON. The client reads its answers with these schemas and the daemon describes itself with them;
 * unknown fields are let pass, so that answers may grow.
 */

/** 201 of a claim. */
export interface ClaimAnswer {
  readonly workerId: number;
  readonly fence: number;
  readonly token: string;
  readonly from: number;
  readonly until: number;
  readonly clock: number;
  readonly renewAfterMs: number;
  readonly layout: string;
  readonly recent?: string | undefined;
  readonly recentFrom?: number | undefined;
  readonly rollback?: number | undefined;
  readonly shared?: boolean | undefined;
  readonly file?: FileJson | undefined;
}

/** A registry's file on this machine. */
export interface FileJson {
  readonly path: string;
  readonly device: string;
  readonly inode: string;
}

const decimal = z.string().regex(/^[0-9]{1,20}$/);

const window = {
  from: z.int().describe("Unix ms; IDs carry only ticks that lie wholly in [from, until)."),
  until: z.int(),
  clock: z.int().describe("The registry's clock, Unix ms."),
  renewAfterMs: z.int().describe("When to renew at the latest, for two more tries before `until`."),
};

export const claimAnswer: z.ZodType<ClaimAnswer> = z.object({
  workerId: z.int(),
  fence: z.int(),
  token: z.string(),
  ...window,
  layout: z.string(),
  recent: z
    .base64()
    .describe("Present: [recentFrom, from) may be used too, above the sequences listed here for each tick.")
    .optional(),
  recentFrom: z.int().optional(),
  rollback: z.number().describe("How far this host's clock is behind what was seen of it before, ms.").optional(),
  shared: z
    .boolean()
    .describe("Others have the same window: what may be used of it are blocks that were taken.")
    .optional(),
  file: z
    .object({ path: z.string(), device: decimal, inode: decimal })
    .describe(
      "Only of a lease that is lent on this machine: the registry's file. The lease is lost when another one stands there.",
    )
    .optional(),
});

/** 200 of taking blocks. */
export interface BlocksAnswer {
  readonly blocks: readonly number[];
}

export const blocksAnswer: z.ZodType<BlocksAnswer> = z.object({
  blocks: z
    .array(
      z
        .int()
        .min(0)
        .max(2 ** 32 - 1),
    )
    .describe("The blocks of each span, as bits; 0 where there were none."),
});

/** 200 of a renewal. */
export interface RenewAnswer {
  readonly from: number;
  readonly until: number;
  readonly clock: number;
  readonly renewAfterMs: number;
}

export const renewAnswer: z.ZodType<RenewAnswer> = z.object(window);

export const namespaceAnswer: z.ZodType<NamespaceInfo> = z.object({
  layout: z.string(),
  maxWindow: z.number(),
  maxClockSkew: z.number(),
  quarantineUntil: z
    .number()
    .describe("Until when nothing is granted, Unix ms; absent where that is not so.")
    .optional(),
});

/** A worker ID's record, flat. */
export interface WorkerJson {
  readonly workerId: number;
  readonly state: WorkerState;
  readonly fence: number;
  /** Null, like `until`, where no window is known of. */
  readonly from: number | null;
  readonly until: number | null;
  readonly seenClock: number;
  readonly clean: boolean;
  readonly recent?: string | undefined;
  readonly recentFrom?: number | undefined;
  readonly lastTimestamp?: number | undefined;
  readonly lastSequence?: number | undefined;
  readonly host?: string | undefined;
  readonly ip?: string | undefined;
  readonly pid?: number | undefined;
  readonly instance?: string | undefined;
  readonly claimedAt?: number | undefined;
  readonly releasedAt?: number | undefined;
  readonly pinned?: string | undefined;
  readonly owner?: string | undefined;
  readonly marked?: boolean | undefined;
}

const shownLabels = { host: z.string(), ip: z.string(), pid: z.number(), instance: z.string() };

export const workerAnswer: z.ZodType<WorkerJson> = z.object({
  workerId: z.int(),
  state: z.enum(["live", "resting", "free", "pinned", "foreign"]),
  fence: z.int(),
  from: z.int().nullable().describe("Null, like `until`, where no window is known of."),
  until: z.int().nullable(),
  seenClock: z.int(),
  clean: z.boolean(),
  recent: z.base64().optional(),
  recentFrom: z.int().optional(),
  lastTimestamp: z.int().optional(),
  lastSequence: z.int().optional(),
  ...z.object(shownLabels).partial().shape,
  claimedAt: z.int().optional(),
  releasedAt: z.int().optional(),
  pinned: z.string().optional(),
  owner: z.string().optional(),
  marked: z.boolean().describe("True where a free number looks taken to Java processes of westid.").optional(),
});

/** A page of workers; `next` goes into `after` for the next one. */
export interface WorkersAnswer {
  readonly workers: readonly WorkerJson[];
  readonly next?: number | undefined;
}

export const workersAnswer: z.ZodType<WorkersAnswer> = z.object({
  workers: z.array(workerAnswer),
  next: z.int().describe("Present when there may be more: the `after` to ask for them with.").optional(),
});

/** A claim in the history, flat. */
export interface HistoryJson extends HolderLabel {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  readonly continuedFrom?: number | undefined;
  readonly claimedAt: number;
  readonly endedAt?: number | undefined;
  readonly end?: HistoryRow["end"];
}

export const historyRow: z.ZodType<HistoryJson> = z.object({
  workerId: z.int(),
  fence: z.int(),
  from: z.int(),
  until: z.int(),
  continuedFrom: z.int().optional(),
  ...shownLabels,
  claimedAt: z.int(),
  endedAt: z.int().optional(),
  end: z.enum(["released", "forced", "reset", "taken-over"]).optional(),
});

/** A page of history; `next` goes into `before` for the older ones. */
interface HistoryAnswer {
  readonly rows: readonly HistoryJson[];
  readonly next?: number | undefined;
}

export const historyAnswer: z.ZodType<HistoryAnswer> = z.object({
  rows: z.array(historyRow),
  next: z.int().describe("Present when there may be more: the `before` to ask for them with.").optional(),
});

export const forceReleaseAnswer: z.ZodType<{ readonly until: number }> = z.object({ until: z.int() });

export const pruneAnswer: z.ZodType<{ readonly pruned: number }> = z.object({ pruned: z.int() });

export const unpinsAnswer: z.ZodType<{ readonly unpinned: readonly number[] }> = z.object({
  unpinned: z.array(z.int()).describe("Those that were pinned."),
});

export const readyAnswer: z.ZodType<Pong & { readonly registry: string }> = z.object({
  registry: z.string().describe("The kind of store behind this daemon."),
  clock: z.int().describe("The registry's clock, Unix ms."),
  promise: z.string().describe("What acknowledged writes survive there."),
  schema: z.int().describe("Version of what is stored there.").optional(),
});

/** An error as application/problem+json. */
export interface Problem {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  readonly retryAfterMs?: number | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

export const problem: z.ZodType<Problem> = z.object({
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.enum(errorCodes),
  retryAfterMs: z.number().optional(),
  details: z.record(z.string(), z.unknown()).optional(),
});

const holder = z.object(shownLabels);
const answered = { freeAt: z.number(), clock: z.number() };

/** A refused claim, in a problem's `details.refusal`. */
export const refusal: z.ZodType<Refusal> = z.discriminatedUnion("outcome", [
  z.object({
    outcome: z.literal("exhausted"),
    pool: z.object({ first: z.int(), last: z.int() }),
    freeAt: z.number().optional(),
    clock: z.number(),
  }),
  z.object({
    outcome: z.literal("held"),
    workerId: z.int(),
    live: z.boolean(),
    holder,
    since: z.number(),
    ...answered,
  }),
  z.object({ outcome: z.literal("rollback"), workerId: z.int(), behind: z.number(), ...answered }),
  z.object({ outcome: z.literal("foreign"), workerId: z.int(), holder, clock: z.number() }),
  z.object({ outcome: z.literal("pinned"), workerId: z.int(), reason: z.string(), clock: z.number() }),
]);

/** A forced release that was refused, in a problem's `details.answer`. */
export const forceRefused: z.ZodType<ForceReleased> = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("live"), holder, until: z.number() }),
  z.object({ outcome: z.literal("superseded"), fence: z.int(), holder, until: z.number() }),
  z.object({ outcome: z.literal("absent") }),
]);
