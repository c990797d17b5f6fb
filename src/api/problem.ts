import { z } from "zod";
import { type ErrorCode, errorCodes } from "../id/errors.ts";
import { type ForceReleased, type Lost, lossReasons, type Refusal } from "../rule/registry.ts";
import { label } from "./fields.ts";
import { answer, type Schema } from "./schema.ts";

/**
 * HTTP status of each error. A new code does not compile without a status. An error that may end without a change has a status at which
 * clients try again, 429 or 503, with `Retry-After`. All other errors have another status. Clients do not repeat other 4xx.
 */
export const statusOf: Readonly<Record<ErrorCode, number>> = {
  CONFIG_INVALID: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  LAYOUT_MISMATCH: 409,
  LAYOUT_EXPIRED: 409,
  OTHER_REGISTRY: 409,
  LEASE_LOST: 410,
  RATE_LIMITED: 429,
  SCHEMA_INCOMPATIBLE: 500,
  DRIVER_MISSING: 500,
  DEFECT: 500,
  WORKER_ID_HELD: 503,
  CLOCK_SKEW: 503,
  CLOCK_ROLLBACK: 503,
  LEASE_EXPIRED: 503,
  POOL_EXHAUSTED: 503,
  SEQUENCE_EXHAUSTED: 503,
  WINDOW_NOT_OPEN: 503,
  QUARANTINE: 503,
  REGISTRY_UNAVAILABLE: 503,
};

/** Status of WORKER_ID_HELD without a known end: the worker ID is pinned, or an operator must confirm the action. */
export const heldForGood = 409;

export interface Problem {
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: ErrorCode;
  readonly retryAfterMs?: number | undefined;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

const codeText = `One of ${errorCodes.join(", ")}; a newer daemon may have others, for which the status stands.`;

/** A problem as a client reads it. A newer daemon may have other codes. */
export const anyProblem: Schema<Omit<Problem, "code"> & { readonly code: string }> = answer({
  title: z.string().describe("The status in words."),
  status: z.int().describe("The status of the answer."),
  detail: z.string().describe("One line for people: what happened, to which value, and what to do."),
  code: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]{0,63}$/)
    .describe(codeText),
  retryAfterMs: z
    .number()
    .describe(
      "After how many ms the same request may succeed; absent where that is not known, or waiting does not help.",
    )
    .optional(),
  details: z
    .record(z.string(), z.unknown())
    .describe(
      "Facts of the error, by its code. Of LEASE_LOST: `reason`, and `doubt` (`from`, `until`) where the registry knows in which span other IDs may equal those of the lease. Of FORBIDDEN: `role`, where the token has another one.",
    )
    .optional(),
});

const statusCodes: Readonly<Record<number, ErrorCode>> = {
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  404: "NOT_FOUND",
  410: "LEASE_LOST",
  429: "RATE_LIMITED",
};

/** The code of a problem. If this version does not know the code, the status decides. */
export function knownCode(code: string, status: number): ErrorCode {
  const known = errorCodes.find((known) => known === code) ?? statusCodes[status];
  return known ?? (status < 500 ? "CONFIG_INVALID" : status === 500 ? "SCHEMA_INCOMPATIBLE" : "REGISTRY_UNAVAILABLE");
}

/** Why a lease is lost, in the `details` of a LEASE_LOST. A reason that only a newer daemon knows counts as `taken`. */
export const loss: Schema<Omit<Lost, "outcome">> = answer({
  reason: z.string().transform((reason) => lossReasons.find((known) => known === reason) ?? "taken"),
  doubt: z.object({ from: z.number(), until: z.number() }).optional().catch(undefined),
});

const holder = z.object(label);
const answered = { freeAt: z.number(), clock: z.number() };

/** A refused claim, in a problem's `details.refusal`. */
export const refusal: Schema<Refusal> = z.discriminatedUnion("outcome", [
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
export const forceRefused: Schema<ForceReleased> = z.discriminatedUnion("outcome", [
  z.object({ outcome: z.literal("live"), holder, until: z.number() }),
  z.object({ outcome: z.literal("superseded"), fence: z.int(), holder, until: z.number() }),
  z.object({ outcome: z.literal("absent") }),
]);
