import { z } from "zod";
import type {
  BlocksRequest,
  BlocksTaken,
  ClaimRequest,
  Grant,
  HolderLabel,
  Renewal,
  RenewRequest,
  Turns,
} from "../rule/registry.ts";
import { mostSentTurns } from "../rule/turn.ts";
import type { NamespaceLimits } from "../rule/limits.ts";
import type { Call } from "./call.ts";
import type { CheckpointJson, RecentsJson } from "./codec.ts";
import {
  anyTime,
  duration,
  fence,
  flag,
  integer,
  layout,
  maxWorkerId,
  oneOf,
  printable,
  span,
  text,
  time,
  workerId,
} from "./fields.ts";
import { answer, type Optional, request, withPairs } from "./schema.ts";

export interface ClaimBody extends Optional<
  HolderLabel & Omit<ClaimRequest, "namespace" | "holder" | "clock" | "window" | "lead" | "recall">
> {
  readonly now: number;
  readonly windowMs?: number | undefined;
  readonly leadMs?: number | undefined;
  readonly lastWorkerId?: number | undefined;
}

export interface ClaimAnswer extends Omit<Grant, "outcome" | "recents" | "store" | "receipt">, RecentsJson {
  readonly token: string;
  readonly renewAfterMs: number;
  readonly layout: string;
  readonly file?: FileJson | undefined;
}

export interface FileJson {
  readonly path: string;
  readonly device: string;
  readonly inode: string;
}

interface RenewBody extends Pick<RenewRequest, "token">, CheckpointJson, Turns {
  readonly fence?: number | undefined;
  readonly now: number;
  readonly windowMs?: number | undefined;
}

interface RenewAnswer extends Omit<Renewal, "outcome" | "receipt"> {
  readonly renewAfterMs: number;
}

export interface ReleaseBody extends CheckpointJson, RecentsJson, Turns {
  readonly token: string;
  readonly fence?: number | undefined;
  readonly now?: number | undefined;
  readonly until?: number | undefined;
}

/** The proof that a claim is the caller's. Its form does not matter, because a wrong token never equals the holder's. */
const heldToken = printable(
  z.string("to be a string").max(128, "to be at most 128 characters"),
  "to be well-formed and without control characters",
);

const uint32 = z
  .int()
  .min(0)
  .max(2 ** 32 - 1);
const decimal = z.string().regex(/^[0-9]{1,20}$/);

const window = {
  from: z.int().describe("Unix ms; IDs carry only ticks that lie wholly in [from, until)."),
  until: z.int(),
  clock: z.int().describe("The registry's clock, Unix ms."),
  renewAfterMs: z.int().describe("When to renew at the latest, for two more tries before `until`."),
};

const used = {
  lastTimestamp: time.describe("The newest timestamp put into an ID.").optional(),
  lastSequence: integer(0, maxWorkerId)
    .describe("The highest sequence used in it. Default: the whole tick counts as used.")
    .optional(),
};

const presentFence = fence.describe("Default: the worker ID's present one.").optional();
const holderClock = time.describe("The holder's wall clock.");

const turn = text(64);

const turns = {
  turn: turn
    .describe(
      "The turn of the last renewal's answer. Default: none. Before the first one is answered, it is not looked at.",
    )
    .optional(),
  nextTurn: turn
    .describe(
      "Random, drawn for this renewal, other than `turn`, and the same until its answer arrives: the `turn` of the request after it.",
    )
    .optional(),
  sentTurns: z
    .array(turn, "to be a list of turns")
    .max(mostSentTurns, `to be at most ${mostSentTurns} turns`)
    .readonly()
    .describe("Each `nextTurn` that was sent since the last answer, where a new one was drawn before it arrived.")
    .optional(),
};

const exampleToken = "6c84fb90a12b4b0f9d1c2b3a4f5e6d70";
const exampleTurns = ["90d2c6b1f4a84c7e8a5d3b2c1f0e9d8c", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"] as const;
const exampleWindow = {
  from: 1_699_999_990_000,
  until: 1_700_000_060_000,
  clock: 1_700_000_000_001,
  renewAfterMs: 20_000,
};

export const claim: Call<ClaimAnswer, ClaimBody> = {
  method: "POST",
  path: "/v1/:namespace/leases",
  operation: "claimLease",
  about:
    "Grants a window. IDs carry only ticks that lie wholly in [from, until), and nothing else is needed for them to be unique. Draw a `token` for each claim: while no answer comes, the same request gets the same grant. `from` mostly lies before `now`, by up to the namespace's `maxClockSkew`; where it is later, wait for it.",
  example: {
    body: { token: exampleToken, now: 1_700_000_000_000, host: "app-1", pid: 4711, continues: false },
    answer: {
      workerId: 7,
      fence: 3,
      token: exampleToken,
      ...exampleWindow,
      layout: "timestamp:41,worker:10,sequence:12@1490346283706/1",
    },
  },
  summary: "Claim a worker ID",
  access: "worker",
  claims: true,
  receipts: true,
  status: 201,
  body: request<ClaimBody>({
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
    pool: request({ first: workerId, last: workerId }, "to be an object with `first` and `last`")
      .describe("Default: every worker ID of the layout, or what the daemon is set to.")
      .optional(),
    host: text(255).optional(),
    ip: text(64).optional(),
    pid: integer(0).optional(),
    instance: text(255).optional(),
    now: holderClock,
    windowMs: duration
      .describe("Length of the window, at least 3 ticks of the layout. Default: what the daemon is set to.")
      .optional(),
    layout: layout("the namespace's; of one that this claim creates, the daemon's"),
    reuse: oneOf("any", "never").optional(),
    continues: flag.describe("Whether this holder can continue behind `recent`. Default true.").optional(),
    shared: flag
      .describe(
        "Asks for a share of the daemon's own lease, for a client that takes blocks of it (`POST …/blocks`); without blocks it would make IDs that others make, too. Refused by a daemon that lends nothing. Default false.",
      )
      .optional(),
    leadMs: span
      .describe("How far this holder can lead its clock: the end of a released window may lie so far ahead of `now`.")
      .optional(),
    limits: request<Partial<NamespaceLimits>>(
      { maxWindow: duration.exactOptional(), maxClockSkew: time.exactOptional() },
      "to be an object with `maxWindow` and `maxClockSkew`",
    )
      .describe("For a namespace that this claim creates.")
      .optional(),
  }).refine(({ pool }) => pool === undefined || pool.first <= pool.last, "Expected `pool` to have `first` <= `last`."),
  answer: answer<ClaimAnswer>({
    workerId,
    fence,
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
  }),
  problems: [
    "RATE_LIMITED",
    "POOL_EXHAUSTED",
    "WORKER_ID_HELD",
    "CLOCK_SKEW",
    "CLOCK_ROLLBACK",
    "LAYOUT_MISMATCH",
    "LAYOUT_EXPIRED",
    "WINDOW_NOT_OPEN",
    "QUARANTINE",
    "LEASE_LOST",
    "LEASE_EXPIRED",
    "OTHER_REGISTRY",
  ],
};

export const renew: Call<RenewAnswer, RenewBody> = {
  method: "PATCH",
  path: "/v1/:namespace/leases/:workerId",
  operation: "renewLease",
  about:
    "Moves the end of the window, and also opens one again that has passed, as long as no other holder has claimed the worker ID. `from` may rise, and never falls: give up the times before it. Where no answer came, send it again with the same `nextTurn` and the present clock. After LEASE_LOST make no more IDs.",
  example: {
    body: {
      token: exampleToken,
      fence: 3,
      now: 1_700_000_020_000,
      turn: exampleTurns[0],
      nextTurn: exampleTurns[1],
      lastTimestamp: 1_700_000_019_998,
      lastSequence: 4,
    },
    answer: { ...exampleWindow, until: 1_700_000_080_000, clock: 1_700_000_020_001, turn: exampleTurns[1] },
  },
  summary: "Renew a lease",
  access: "worker",
  body: withPairs(
    request<RenewBody>({
      token: heldToken,
      fence: presentFence,
      now: holderClock,
      windowMs: duration.describe("Default: what the claim asked for.").optional(),
      ...turns,
      ...used,
    }).refine(
      ({ turn, nextTurn }) => nextTurn === undefined || nextTurn !== turn,
      "Expected `nextTurn` to differ from `turn`; draw a new one for each renewal that follows an answer.",
    ),
    { lastSequence: "lastTimestamp" },
  ),
  answer: answer<RenewAnswer>({
    ...window,
    turn: z
      .string()
      .describe("The `turn` of the next request: where a request names none, another copy may renew.")
      .optional(),
  }),
  receipts: true,
  problems: ["LEASE_LOST", "LEASE_EXPIRED", "OTHER_REGISTRY", "CLOCK_SKEW", "QUARANTINE"],
};

export const release: Call<void, ReleaseBody> = {
  method: "POST",
  path: "/v1/:namespace/leases/:workerId/release",
  operation: "releaseLease",
  summary: "Give a worker ID back; repeating it changes nothing",
  about:
    "Make no ID after it was sent. With `lastTimestamp` the window closes behind that tick, and another holder may have the worker ID at once; without it and `until`, the worker ID rests until the window has passed.",
  access: "worker",
  status: 204,
  receipts: true,
  example: {
    body: {
      token: exampleToken,
      fence: 3,
      now: 1_700_000_030_000,
      turn: exampleTurns[1],
      lastTimestamp: 1_700_000_029_999,
      lastSequence: 0,
    },
  },
  body: withPairs(
    request<ReleaseBody>({
      token: heldToken,
      fence: presentFence,
      now: holderClock.optional(),
      until: anyTime
        .describe(
          "Where the window closes. Default: behind the tick of `lastTimestamp`; without both it does not change.",
        )
        .optional(),
      ...turns,
      ...used,
      recent: z
        .base64("to be base64")
        .describe("The used sequences behind which the next holder may continue, as a holder encodes them.")
        .optional(),
      recentFrom: anyTime.describe("Default: `from` of the window.").optional(),
    }).refine(
      ({ recent, until, lastTimestamp }) => recent === undefined || until !== undefined || lastTimestamp !== undefined,
      "Expected `lastTimestamp` (or `until`) next to `recent`.",
    ),
    { lastSequence: "lastTimestamp", recentFrom: "recent" },
  ),
  problems: ["LEASE_LOST", "OTHER_REGISTRY"],
};

/** The same as `release`, in every version of the daemon. Some clients and proxies send no body with a DELETE. */
export const releaseByDelete: Call<void, ReleaseBody> = {
  ...release,
  method: "DELETE",
  path: "/v1/:namespace/leases/:workerId",
  operation: "deleteLease",
  summary: "The same as `POST …/release`, in every version of the daemon",
};

export const takeBlocks: Call<Omit<BlocksTaken, "outcome">, Omit<BlocksRequest, "namespace" | "workerId">> = {
  method: "POST",
  path: "/v1/:namespace/leases/:workerId/blocks",
  operation: "takeBlocks",
  summary: "Take blocks of a lease that a daemon with `--lend` lends",
  about:
    "Only for a claim whose answer has `shared`: its IDs may use the blocks alone that it took. Spans and blocks divide the ticks and sequences of the layout: docs/clients.md has how. Do not repeat a request whose answer was lost: another one gets other blocks. A daemon without `--lend` has no such call (404).",
  example: {
    body: {
      token: exampleToken,
      fence: 3,
      turn: exampleTurns[1],
      first: 3_275_839_317,
      spans: 4,
      blocks: 1,
      held: 0,
    },
    answer: { blocks: [8, 8, 8, 0] },
  },
  access: "worker",
  body: request({
    token: heldToken,
    fence,
    first: integer(0).describe("The first span, counted from the layout's epoch."),
    spans: integer(1, 256).describe("How many spans, one after the other."),
    blocks: integer(1, 32).describe("How many blocks of each."),
    held: integer(0, 32).describe("How many of them the caller has already."),
    ...turns,
  }),
  answer: answer({
    blocks: z.array(uint32).describe("The blocks of each span, as bits, the lowest for block 0; 0: there were none."),
  }),
  problems: ["LEASE_LOST", "RATE_LIMITED"],
};
