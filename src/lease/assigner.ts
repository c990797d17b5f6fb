import type { Clock } from "./clock.ts";
import { shown, SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { formatPool } from "../id/notation.ts";
import type { Registry } from "../rule/registry.ts";

/** Derives a worker ID from configuration or environment. */
export interface WorkerIdAssigner {
  /** For messages. */
  readonly name: string;
  /**
   * A number: the whole worker ID to claim, from `pool`. A `Lease`: used as it is. `undefined`: this assigner has no answer, and
   * the next one is asked. A rejection ends the search.
   */
  assign(request: AssignRequest, signal: AbortSignal): Promise<number | Lease | undefined>;
}

/** The request to an assigner. */
export interface AssignRequest {
  readonly namespace: string;
  readonly layout: Layout;
  /** The worker IDs that the assigner may answer. */
  readonly pool: PoolBounds;
  /** The worker IDs with the layout's fixed fields, such as a datacenter; all worker IDs where no field is fixed. */
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
  /** The claim's options, for an assigner that answers a `Lease`. */
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
 * Turns a number within the fixed fields into a worker ID: a number, or its plain decimal text without sign, space, leading zero,
 * point or exponent. With datacenter 3 of `twitter`, 7 means the worker ID 103.
 * @param source the origin of the value, for the message.
 * @returns the worker ID.
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
    throw new SnowleaseError(
      "CONFIG_INVALID",
      last === layout.pool.last
        ? `Expected \`workerId\` to be an integer from 0 to ${last} (${layout.workerBits} bits), got ${shown(value)}; correct ${source}.`
        : `Expected \`workerId\` to be an integer from 0 to ${last}, the number within the fixed fields (whose worker IDs are ${formatPool(fixed)}), got ${shown(value)}${alias(number, fixed)}; correct ${source}.`,
    );
  }
  const workerId = fixed.first + number;
  checkInPool(
    workerId,
    source,
    pool,
    fixed.first === 0 ? shown(value) : `${shown(value)}, which is worker ID ${workerId}`,
  );
  return workerId;
}

/** Explains a whole worker ID where a number within the fixed fields is expected. */
function alias(number: unknown, { first, last }: PoolBounds): string {
  const isWhole = typeof number === "number" && number >= first && number <= last;
  return isWhole ? `, which as a worker ID is ${number - first} there` : "";
}

function checkInPool(workerId: number, source: string, pool: PoolBounds, got: string): void {
  if (workerId >= pool.first && workerId <= pool.last) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`workerId\` to be in the pool ${formatPool(pool)}, got ${got}; correct ${source}, or the pool.`,
  );
}

function checkAnswer(answer: unknown, { name }: WorkerIdAssigner, request: AssignRequest): number | Lease | undefined {
  if (answer === undefined || answer instanceof Lease) return answer;
  if (typeof answer === "number") {
    // An assigner answers whole worker IDs: it has pool and fields.
    const { layout, pool } = request;
    const source = `the assigner ${shownName(name)}`;
    const workerId = numberWithin(answer, source, { layout, pool: layout.pool, fixed: layout.pool });
    checkInPool(workerId, source, pool, shown(answer));
    return workerId;
  }
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected the assigner ${shownName(name)} to answer a number, a Lease or undefined, got ${answerText(answer)}; correct it.`,
  );
}

/** An object may contain a password. */
function answerText(answer: unknown): string {
  const isOpaque = (typeof answer === "object" && answer !== null) || typeof answer === "function";
  return isOpaque ? `a value of the type ${typeof answer}` : shown(answer);
}

function shownName(name: string): string {
  return shown(name).replace(/ \(\w+\)$/, "");
}
