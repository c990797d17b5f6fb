import { z } from "zod";
import type { IdParts } from "../id/layout.ts";
import type { BlocksTaken, Grant, Pong, Renewal } from "../rule/registry.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import type { HistoryJson, RecentsJson, WorkerJson } from "./codec.ts";
import type { FieldSchemas, Schema } from "./schema.ts";

/*
 * What a daemon answers, as JSON. The client reads its answers with these schemas and the daemon describes itself with them;
 * unknown fields pass, so that answers may grow.
 */

/** 201 of a claim. */
export interface ClaimAnswer extends Omit<Grant, "outcome" | "recents" | "store">, RecentsJson {
  readonly token: string;
  readonly renewAfterMs: number;
  readonly layout: string;
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

export const claimAnswer: Schema<ClaimAnswer> = z.object({
  workerId: z.int(),
  fence: z.int(),
  token: z.string(),
  ...window,
  layout: z.string(),
  recent: z
    .base64()
    .describe(
      "Present: the holder may also use [recentFrom, from), above the sequences that are listed here for each tick.",
    )
    .optional(),
  recentFrom: z.int().optional(),
  rollback: z
    .number()
    .describe("How far this host's clock is behind the highest time that the registry saw from it, ms.")
    .optional(),
  shared: z
    .boolean()
    .describe("Other holders share this window: the holder may use only the blocks that it took.")
    .optional(),
  file: z
    .object({ path: z.string(), device: decimal, inode: decimal })
    .describe(
      "Only for a lease that is lent on this machine: the registry's file. The lease is lost when another file replaces it.",
    )
    .optional(),
} satisfies FieldSchemas<ClaimAnswer>);

/** 200 of taking blocks. */
export const blocksAnswer: Schema<Omit<BlocksTaken, "outcome">> = z.object({
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
interface RenewAnswer extends Omit<Renewal, "outcome"> {
  readonly renewAfterMs: number;
}

export const renewAnswer: Schema<RenewAnswer> = z.object(window satisfies FieldSchemas<RenewAnswer>);

export const namespaceAnswer: Schema<NamespaceInfo> = z.object({
  layout: z.string(),
  maxWindow: z.number(),
  maxClockSkew: z.number(),
  quarantineUntil: z
    .number()
    .describe("Until when the registry grants nothing, Unix ms; absent outside of a quarantine.")
    .optional(),
} satisfies FieldSchemas<NamespaceInfo>);

const shownLabels = { host: z.string(), ip: z.string(), pid: z.number(), instance: z.string() };

export const workerAnswer: Schema<WorkerJson> = z.object({
  workerId: z.int(),
  state: z.enum(["live", "resting", "free", "pinned", "foreign"]),
  fence: z.int(),
  from: z.int().nullable().describe("Null, like `until`, where no window is known."),
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
} satisfies FieldSchemas<WorkerJson>);

/** A page of workers; `next` goes into `after` for the next one. */
interface WorkersAnswer {
  readonly workers: readonly WorkerJson[];
  readonly next?: number | undefined;
}

export const workersAnswer: Schema<WorkersAnswer> = z.object({
  workers: z.array(workerAnswer),
  next: z.int().describe("Present when there may be more: the `after` to ask for them with.").optional(),
});

const historyRow: Schema<HistoryJson> = z.object({
  workerId: z.int(),
  fence: z.int(),
  from: z.int(),
  until: z.int(),
  continuedFrom: z.int().optional(),
  ...shownLabels,
  claimedAt: z.int(),
  endedAt: z.int().optional(),
  end: z.enum(["released", "forced", "reset", "taken-over"]).optional(),
} satisfies FieldSchemas<HistoryJson>);

/** A page of history; `next` goes into `before` for the older ones. */
interface HistoryAnswer {
  readonly rows: readonly HistoryJson[];
  readonly next?: number | undefined;
}

export const historyAnswer: Schema<HistoryAnswer> = z.object({
  rows: z.array(historyRow),
  next: z.int().describe("Present when there may be more: the `before` to ask for them with.").optional(),
});

export const forceReleaseAnswer: Schema<{ readonly until: number }> = z.object({ until: z.int() });

export const pruneAnswer: Schema<{ readonly pruned: number }> = z.object({ pruned: z.int() });

export const unpinsAnswer: Schema<{ readonly unpinned: readonly number[] }> = z.object({
  unpinned: z.array(z.int()).describe("Those that were pinned."),
});

interface ReadyAnswer extends Pong {
  readonly registry: string;
}

export const readyAnswer: Schema<ReadyAnswer> = z.object({
  registry: z.string().describe("The kind of store behind this daemon."),
  clock: z.int().describe("The registry's clock, Unix ms."),
  promise: z.string().describe("What acknowledged writes survive there."),
  schema: z.int().describe("Version of what is stored there.").optional(),
} satisfies FieldSchemas<ReadyAnswer>);

export const healthAnswer: Schema<{ readonly status: "ok" }> = z.object({ status: z.literal("ok") });

/** An answer that is no JSON. */
export const text: Schema<string> = z.string();

export const openapiAnswer: Schema<Readonly<Record<string, unknown>>> = z.record(z.string(), z.unknown());

export const idsAnswer: Schema<{ readonly ids: readonly string[] }> = z.object({ ids: z.array(z.string()) });

const reasons = ["future", "foreign", "pinned", "unused", "early", "gap"] as const;

/** 200 of explaining an ID. */
interface ExplainAnswer extends IdParts {
  readonly id: string;
  readonly layout: string;
  readonly time: string;
  readonly holders: readonly HistoryJson[];
  readonly nobody?: { readonly why: (typeof reasons)[number]; readonly detail: string } | undefined;
}

export const explainAnswer: Schema<ExplainAnswer> = z.object({
  id: z.string().describe("The ID in decimal."),
  layout: z.string(),
  timestamp: z.int().describe("When the tick of the ID begins, Unix ms."),
  time: z.iso.datetime(),
  workerId: z.int(),
  sequence: z.int(),
  fields: z.record(z.string(), z.int()).describe("The identity fields one by one."),
  rollback: z.int().describe("How often the clock had gone back; only in a layout with such bits.").exactOptional(),
  holders: z
    .array(historyRow)
    .describe(
      "The claims whose window contains the timestamp. Several: one holder continued behind another. Empty: `nobody` says why.",
    ),
  nobody: z
    .object({ why: z.enum(reasons), detail: z.string() })
    .describe("Why there are no holders.")
    .optional(),
} satisfies FieldSchemas<ExplainAnswer>);
