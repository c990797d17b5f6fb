import type { Clock } from "../clock.ts";
import { configInvalid, shown } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import { isIn, type PoolBounds } from "../id/pool-bounds.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { formatPool } from "../id/notation.ts";
import type { Registry } from "../rule/registry.ts";

/** Derives a worker ID from configuration or environment. */
export interface WorkerIdAssigner {
  /** For messages. */
  readonly name: string;
  /**
   * Returns the whole worker ID to claim, from `pool`; or a `Lease`, which is used as it is; or `undefined`, so that the next assigner is
   * asked. A rejection ends the search.
   */
  assign(request: AssignRequest, signal: AbortSignal): Promise<number | Lease | undefined>;
}

/** The request to an assigner. */
export interface AssignRequest {
  readonly namespace: string;
  readonly layout: Layout;
  /** The worker IDs that the assigner may return. */
  readonly pool: PoolBounds;
  /** The worker IDs with the layout's fixed fields, such as a datacenter; all worker IDs if no field is fixed. */
  readonly fixed: PoolBounds;
  /** The configured registry, if any. It closes after `assign`: a `Lease` in the answer needs its own. */
  readonly registry: Registry | undefined;
  /** This host's name. */
  readonly host: string;
  readonly options: AssignOptions;
}

/** The options for assigners. */
export interface AssignOptions {
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
  /** Name of the environment variable with the worker ID. */
  readonly env?: string | undefined;
  /** Added to the number at the end of the host's name. */
  readonly ordinalBase: number;
  /** Address whose last bits become the worker ID. */
  readonly ip?: string | undefined;
  /** Network interface that gives the address. */
  readonly interface?: string | undefined;
  /** The claim's options, for an assigner that returns a `Lease`. */
  readonly lease: LeaseOptions;
  readonly clock: Clock;
  /** Makes a token: 128 random bits as 32 hex digits. */
  readonly makeToken: () => string;
}

/** An assigner that asks others in turn: the first answer other than `undefined` counts; an error ends the search. */
export function firstOf(...assigners: readonly WorkerIdAssigner[]): WorkerIdAssigner {
  return {
    name: assigners.map(({ name }) => name).join(", "),
    async assign(request, signal) {
      for (const assigner of assigners) {
        signal.throwIfAborted();
        const answer = checkAnswer(await assigner.assign(request, signal), assigner, request);
        if (answer !== undefined) return answer;
      }
      return undefined;
    },
  };
}

/**
 * The worker ID that a number within the fixed fields means, given as a number or as plain decimal text: with datacenter 3 of
 * `twitter`, 7 means 103.
 * @param source the origin of the value, for the message.
 * @throws SnowleaseError CONFIG_INVALID for any other value, or one that does not fit the free fields or the pool.
 */
export function numberWithin(
  value: unknown,
  source: string,
  { layout, pool, fixed }: Pick<AssignRequest, "layout" | "pool" | "fixed">,
): number {
  const number = typeof value === "string" && /^(?:0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : value;
  const last = fixed.last - fixed.first;
  if (typeof number !== "number" || !Number.isInteger(number) || number < 0 || number > last) {
    throw configInvalid(
      last === layout.pool.last
        ? `Expected \`workerId\` to be an integer from 0 to ${last} (${layout.workerBits} bits), got ${shown(value)}; correct ${source}.`
        : `Expected \`workerId\` to be an integer from 0 to ${last}, the number within the fixed fields (whose worker IDs are ${formatPool(fixed)}), got ${shown(value)}${alias(number, fixed)}; correct ${source}.`,
    );
  }
  const workerId = fixed.first + number;
  if (isIn(pool, workerId)) return workerId;
  const got = fixed.first === 0 ? shown(value) : `${shown(value)}, which is worker ID ${workerId}`;
  throw configInvalid(
    `Expected \`workerId\` to be in the pool ${formatPool(pool)}, got ${got}; correct ${source}, or the pool.`,
  );
}

/** Explains a whole worker ID that was given although a number within the fixed fields is expected. */
function alias(number: unknown, { first, last }: PoolBounds): string {
  const isWhole = typeof number === "number" && number >= first && number <= last;
  return isWhole ? `, which as a worker ID is ${number - first} there` : "";
}

function checkAnswer(
  answer: unknown,
  { name }: WorkerIdAssigner,
  { layout, pool }: AssignRequest,
): number | Lease | undefined {
  if (answer === undefined || answer instanceof Lease) return answer;
  const source = `the assigner ${shown(name).replace(/ \(\w+\)$/, "")}`;
  // An assigner returns whole worker IDs: it knows pool and fields.
  if (typeof answer === "number") return numberWithin(answer, source, { layout, pool, fixed: layout.pool });
  // An object may contain a password.
  const isOpaque = (typeof answer === "object" && answer !== null) || typeof answer === "function";
  const got = isOpaque ? `a value of the type ${typeof answer}` : shown(answer);
  throw configInvalid(`Expected ${source} to answer a number, a Lease or undefined, got ${got}; correct it.`);
}
