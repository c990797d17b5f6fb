import { z } from "zod";
import { encodings, type EncodingName } from "../id/encodings.ts";
import {
  type BlocksRequest,
  type ClaimRequest,
  type ForceReleaseRequest,
  type HistoryRange,
  type HolderLabel,
  type InitRequest,
  mostPins,
  type RenewRequest,
  type WorkersPage,
  type WorkerState,
} from "../rule/registry.ts";
import type { CheckpointJson, RecentsJson } from "./codec.ts";
import type { FieldSchemas, Optional, Schema } from "./schema.ts";

/*
 * What a daemon is asked, as JSON: the port's requests field for field, of which a hand-written client may leave out most.
 * Strict, so that a misspelt field is noticed. A schema's message is the rule alone, `to be ...`: `checked` adds which field broke
 * it, and with what.
 */

/** Fields of a port's request that a body does not have: the path names them. */
type InPath = "namespace" | "workerId";

/** A namespace's name. */
export const namespacePattern: RegExp = /^[a-z][a-z0-9_]{0,31}$/;

/** Longest request body, bytes. */
export const maxBody: number = 64 * 1024;

/** Most workers or history rows in one answer. */
const maxPage = 10_000;
/** Highest worker ID of any layout. */
const maxWorkerId = 2 ** 31 - 1;
/** The last Unix ms that a Date can show. */
const maxTime = 8_640_000_000_000_000;
/** Texts are for people: no control characters, which a terminal obeys, and no half characters, which a store changes. */
const printable = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]*$/u;

const integer = (first: number, last: number, unit = ""): Schema<number> => {
  const rule = `to be an integer from ${first} to ${last}${unit && ` (${unit})`}`;
  return z.int(rule).min(first, rule).max(last, rule);
};
const text = (longest: number): Schema<string> => {
  const rule = `to be a well-formed string of at most ${longest} characters without control characters`;
  return z.string(rule).max(longest, rule).regex(printable, rule);
};
const reasonRule =
  "to be a well-formed string of 1 to 200 characters, not all of them blank, without control characters";
const reason = z.string(reasonRule).max(200, reasonRule).regex(/\S/, reasonRule).regex(printable, reasonRule);
const oneOf = <Value extends string>(...values: Value[]): Schema<Value> =>
  z.enum(values, `to be one of ${values.join(", ")}`);

const time = integer(0, maxTime, "Unix ms");
const duration = integer(1, maxTime, "ms");
const span = integer(0, maxTime, "ms");
const fence = integer(0, Number.MAX_SAFE_INTEGER);
const sequence = integer(0, maxWorkerId);
const flag = z.boolean("to be true or false");
const bytes = z.base64("to be base64");

/** A worker ID in a URL or a body. */
export const workerId: Schema<number> = integer(0, maxWorkerId);

export const workerPath: Schema<{ readonly workerId: number }> = z.object({ workerId });

/** Proves that a claim is the caller's. Its form does not matter: a wrong token never equals the holder's. */
const heldToken = z
  .string("to be a string")
  .max(128, "to be at most 128 characters")
  .regex(printable, "to be well-formed and without control characters");

const labels = { host: text(255), ip: text(64), pid: integer(0, Number.MAX_SAFE_INTEGER), instance: text(255) };
const poolBounds = z.strictObject({ first: workerId, last: workerId }, "to be an object with `first` and `last`");
const limits = z.strictObject(
  { maxWindow: duration.exactOptional(), maxClockSkew: time.exactOptional() },
  "to be an object with `maxWindow` and `maxClockSkew`",
);

/** POST /v1/{ns}/leases. */
export interface ClaimBody extends Optional<
  HolderLabel & Omit<ClaimRequest, "namespace" | "holder" | "clock" | "window" | "lead">
> {
  readonly now: number;
  readonly windowMs?: number | undefined;
  readonly leadMs?: number | undefined;
  readonly lastWorkerId?: number | undefined;
}

export const claimBody: Schema<ClaimBody> = z
  .strictObject({
    token: z
      .string("to be 32 hex digits")
      .regex(/^[0-9a-f]{32}$/, "to be 32 hex digits")
      .describe(
        "Random, made for this claim alone: a repeated request with the same token gets the same grant. Default: the daemon makes one.",
      )
      .optional(),
    workerId: workerId.describe("The only acceptable worker ID. Default: any of the pool.").optional(),
    lastWorkerId: workerId.describe("The worker ID to try first.").optional(),
    preferred: z.array(workerId, "to be a list of worker IDs").max(8, "to be at most 8 worker IDs").optional(),
    pool: poolBounds.describe("Default: every worker ID of the layout, or what the daemon is set to.").optional(),
    host: labels.host.optional(),
    ip: labels.ip.optional(),
    pid: labels.pid.optional(),
    instance: labels.instance.optional(),
    now: time.describe("The holder's wall clock."),
    windowMs: duration
      .describe("Length of the window, at least 3 ticks of the layout. Default: what the daemon is set to.")
      .optional(),
    layout: text(1024).describe("A preset's name or a notation. Default: the namespace's, or the daemon's.").optional(),
    reuse: oneOf("any", "never").optional(),
    continues: flag.describe("Whether this holder can continue behind `recent`. Default true.").optional(),
    leadMs: span
      .describe("How far this holder can lead its clock: the end of a released window may lie so far ahead of `now`.")
      .optional(),
    limits: limits.describe("For a namespace that this claim creates.").optional(),
  } satisfies FieldSchemas<ClaimBody>)
  .refine(({ pool }) => pool === undefined || pool.first <= pool.last, "Expected `pool` to have `first` <= `last`.");

/** PATCH /v1/{ns}/leases/{workerId}. */
export interface RenewBody extends Pick<RenewRequest, "token">, CheckpointJson {
  readonly fence?: number | undefined;
  readonly now: number;
  readonly windowMs?: number | undefined;
}

const usedShape = {
  lastTimestamp: time.describe("The newest timestamp put into an ID.").optional(),
  lastSequence: sequence
    .describe("The highest sequence used in it. Default: the whole tick counts as used.")
    .optional(),
};
const needsTimestamp = "Expected `lastTimestamp` next to `lastSequence`.";

export const renewBody: Schema<RenewBody> = z
  .strictObject({
    token: heldToken,
    fence: fence.describe("Default: the worker ID's present one.").optional(),
    now: time.describe("The holder's wall clock."),
    windowMs: duration.describe("Default: what the claim asked for.").optional(),
    ...usedShape,
  } satisfies FieldSchemas<RenewBody>)
  .refine((body) => body.lastSequence === undefined || body.lastTimestamp !== undefined, needsTimestamp);

/** POST /v1/{ns}/leases/{workerId}/blocks. */
export type BlocksBody = Omit<BlocksRequest, InPath>;

export const blocksBody: Schema<BlocksBody> = z.strictObject({
  token: heldToken,
  fence,
  first: integer(0, Number.MAX_SAFE_INTEGER).describe("The first span."),
  spans: integer(1, 256).describe("How many spans, one after the other."),
  blocks: integer(1, 32).describe("How many blocks of each."),
  held: integer(0, 32).describe("How many of them the caller has already."),
} satisfies FieldSchemas<BlocksBody>);

/** DELETE /v1/{ns}/leases/{workerId}. */
export interface ReleaseBody extends CheckpointJson, RecentsJson {
  readonly token: string;
  readonly fence?: number | undefined;
  readonly now?: number | undefined;
  readonly until?: number | undefined;
}

export const releaseBody: Schema<ReleaseBody> = z
  .strictObject({
    token: heldToken,
    fence: fence.describe("Default: the worker ID's present one.").optional(),
    now: time.describe("The holder's wall clock.").optional(),
    until: z
      .int("to be an integer (Unix ms)")
      .describe(
        "Where the window closes. Default: behind the tick of `lastTimestamp`; without both it does not change.",
      )
      .optional(),
    ...usedShape,
    recent: bytes
      .describe("The used sequences behind which the next holder may continue, as a holder encodes them.")
      .optional(),
    recentFrom: z.int("to be an integer (Unix ms)").describe("Default: `from` of the window.").optional(),
  } satisfies FieldSchemas<ReleaseBody>)
  .refine((body) => body.lastSequence === undefined || body.lastTimestamp !== undefined, needsTimestamp)
  .refine(
    (body) => body.recentFrom === undefined || body.recent !== undefined,
    "Expected `recent` next to `recentFrom`.",
  )
  .refine(
    (body) => body.recent === undefined || body.until !== undefined || body.lastTimestamp !== undefined,
    "Expected `lastTimestamp` (or `until`) next to `recent`.",
  );

/** PUT /v1/{ns}. */
export interface InitBody extends Omit<InitRequest, InPath | "layout"> {
  readonly layout?: string | undefined;
}

export const initBody: Schema<InitBody> = z.strictObject({
  layout: text(1024).describe("A preset's name or a notation. Default: the daemon's.").optional(),
  maxWindow: duration.exactOptional(),
  maxClockSkew: time.exactOptional(),
  new: flag
    .describe(
      "Your word that this namespace never existed: refused where the registry knows anything of it. Without it, Redis creates the namespace in quarantine. Default false.",
    )
    .optional(),
} satisfies FieldSchemas<InitBody>);

/** GET /v1/{ns}/workers. */
export const workersQuery: Schema<WorkersPage> = z.strictObject({
  state: oneOf<WorkerState>("live", "resting", "free", "pinned", "foreign").optional(),
  after: integer(-1, maxWorkerId).describe("Only worker IDs above this one.").optional(),
  limit: integer(1, maxPage).describe("Default 1000. An answer may hold fewer; look for `next`.").optional(),
} satisfies FieldSchemas<WorkersPage>);

/** GET /v1/{ns}/workers/{workerId}/history. */
export interface HistoryQuery extends HistoryRange {
  readonly before?: number | undefined;
}

export const historyQuery: Schema<HistoryQuery> = z.strictObject({
  from: z.int("to be an integer (Unix ms)").optional(),
  until: z.int("to be an integer (Unix ms)").optional(),
  before: fence.describe("Only claims of a lower fence.").optional(),
  limit: integer(1, maxPage)
    .describe("The newest so many. Default 1000. An answer may hold fewer; look for `next`.")
    .optional(),
} satisfies FieldSchemas<HistoryQuery>);

/** POST /v1/{ns}/workers/{workerId}/release. */
export interface ForceReleaseBody extends Optional<Omit<ForceReleaseRequest, InPath>> {
  readonly iKnow?: boolean | undefined;
}

export const forceReleaseBody: Schema<ForceReleaseBody> = z
  .strictObject({
    force: flag.describe("End the claim even while its window has not passed.").optional(),
    fence: fence.describe("The claim to end; no other claim is ended. Default: the present one.").optional(),
    resetWindow: flag.describe("Also lower `until` to the registry's clock. Needs `fence` and `iKnow`.").optional(),
    iKnow: flag.describe("Your word that no holder can still use that window.").optional(),
  } satisfies FieldSchemas<ForceReleaseBody>)
  .refine(
    ({ resetWindow, iKnow }) => resetWindow !== true || iKnow === true,
    "`resetWindow` lets times be used twice if a holder is left; when you know that there is none, add `iKnow: true`.",
  );

/** PUT /v1/{ns}/workers/{workerId}/pin. */
export interface PinBody {
  readonly reason: string;
  readonly owner?: string | undefined;
  readonly usedUntil?: number | undefined;
}

const pinShape = {
  reason,
  owner: text(45).describe("The address of the host for which it is kept: a claim with this `ip` gets it.").optional(),
  usedUntil: time.describe("Until when that host is known to have used it.").optional(),
};

/** Refuses a time of use without an owner. */
function ownedTimes<Body extends Pick<PinBody, "owner" | "usedUntil">>(schema: Schema<Body>): Schema<Body> {
  return schema.refine(
    ({ owner, usedUntil }) => usedUntil === undefined || owner !== undefined,
    "Expected `owner` next to `usedUntil`.",
  );
}

export const pinBody: Schema<PinBody> = ownedTimes(z.strictObject(pinShape));

const manyPins = `to be 1 to ${mostPins} pins`;
const manyWorkerIds = `to be 1 to ${mostPins} worker IDs`;

/** PUT /v1/{ns}/pins. */
export interface PinsBody {
  readonly pins: readonly (PinBody & { readonly workerId: number })[];
}

export const pinsBody: Schema<PinsBody> = z.strictObject({
  pins: z
    .array(ownedTimes(z.strictObject({ workerId, ...pinShape })), manyPins)
    .min(1, manyPins)
    .max(mostPins, manyPins),
});

/** DELETE /v1/{ns}/pins. */
export interface UnpinsBody {
  readonly workerIds: readonly number[];
}

export const unpinsBody: Schema<UnpinsBody> = z.strictObject({
  workerIds: z.array(workerId, manyWorkerIds).min(1, manyWorkerIds).max(mostPins, manyWorkerIds),
});

export const pruneBody: Schema<{ readonly before: number }> = z.strictObject({
  before: time.describe("Rows whose window ended before this time are deleted; the last row of a worker ID stays."),
});

const formats = Object.keys(encodings) as EncodingName[];
const format = oneOf(...formats).optional();
/** IDs of one request. */
const mostIds = 100_000;

/** POST /v1/{ns}/ids. */
export interface IdsBody {
  readonly count?: number | undefined;
  readonly format?: EncodingName | undefined;
}

export const idsBody: Schema<IdsBody> = z.strictObject({
  count: integer(1, mostIds).describe("Default 1.").optional(),
  format: format.describe("Default decimal."),
} satisfies FieldSchemas<IdsBody>);

/** GET /v1/{ns}/ids/{id}. */
export interface ExplainQuery {
  readonly format?: EncodingName | undefined;
  readonly at?: number | undefined;
}

export const explainQuery: Schema<ExplainQuery> = z.strictObject({
  format: format.describe("Default: recognized by its form."),
  at: z
    .int("to be Unix ms")
    .min(0, "to be Unix ms")
    .describe("A time near the creation of the ID, Unix ms: for a layout whose timestamp wraps.")
    .optional(),
} satisfies FieldSchemas<ExplainQuery>);
