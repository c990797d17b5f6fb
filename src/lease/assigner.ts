import type { Clock } from "./clock.ts";
import { shown, SnowleaseError } from "../id/errors.ts";
import type { Layout } from "../id/layout.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { formatPool } from "../id/notation.ts";
import type { Registry } from "../rule/registry.ts";

/** Turns configuration or surroundings into a worker ID. */
export interface WorkerIdAssigner {
  /** For messages. */
  readonly name: string;
  /**
   * A number: the worker ID to claim, one of `pool`; not a number within fixed fields. A `Lease`: taken as it is. `undefined`: not mine, ask the next. Rejecting ends the search.
   */
  assign(request: AssignRequest, signal: AbortSignal): Promise<number | Lease | undefined>;
}

/** What an assigner is asked with. */
export interface AssignRequest {
  readonly namespace: string;
  readonly layout: Layout;
  /** The worker IDs that may be answered. */
  readonly pool: PoolBounds;
  /** The worker IDs that have the fixed fields of the layout, such as its datacenter; all of them where none is fixed. */
  readonly fixed: PoolBounds;
  /** The registry that was named, if one was: for `assign` alone, a `Lease` that is answered needs one of its own. */
  readonly registry: Registry | undefined;
  /** This host's name. */
  readonly host: string;
  readonly options: AssignOptions;
}

/** The options that assigners go by. */
export interface AssignOptions {
  readonly properties?: Readonly<Record<string, unknown>> | undefined;
  /** Name of the environment variable that holds the worker ID. */
  readonly env?: string | undefined;
  /** Added to the number that ends the host's name. */
  readonly ordinalBase: number;
  /** Address whose last bits are the worker ID. */
  readonly ip?: string | undefined;
  /** Network interface whose address is used. */
  readonly interface?: string | undefined;
  /** How to claim, for an assigner that answers a `Lease`. */
  readonly lease: LeaseOptions;
  readonly clock: Clock;
  /** Makes a token: 128 random bits as 32 hex digits. */
  readonly makeToken: () => string;
}

/** Asks one assigner after the other; the first answer that is not `undefined` counts, and the first error ends it. */
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
 * Reads the number of a worker among those that have the fixed fields: a number, or its plain decimal text without sign, space, leading
 * zero, point or exponent. With datacenter 3 of `twitter`, 7 is the worker ID 103, and no other number is.
 * @param source where it was found, for the message.
 * @returns the worker ID.
 * @throws SnowleaseError CONFIG_INVALID when it is anything else, does not fit the fields that are left, or lies outside the pool.
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

/** For a worker ID that was written in place of its number within the fixed fields. */
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
    // An assigner answers whole worker IDs: it knows pool and fields.
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

/** An object may hold a password somewhere inside. */
function answerText(answer: unknown): string {
  const isOpaque = (typeof answer === "object" && answer !== null) || typeof answer === "function";
  return isOpaque ? `a value of the type ${typeof answer}` : shown(answer);
}

function shownName(name: string): string {
  return shown(name).replace(/ \(\w+\)$/, "");
}
