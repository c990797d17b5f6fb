import type { Clock } from "./clock.ts";
import { shown, SnowleaseError } from "./errors.ts";
import type { Layout, PoolBounds } from "./layout.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { formatPool } from "./notation.ts";
import type { Registry } from "./registry.ts";

/** Turns configuration or surroundings into a worker ID. */
export interface WorkerIdAssigner {
  /** For messages. */
  readonly name: string;
  /**
   * A number: the worker ID to claim. A `Lease`: taken as it is. `undefined`: not mine, ask the next. Rejecting ends the search.
   */
  assign(request: AssignRequest, signal: AbortSignal): Promise<number | Lease | undefined>;
}

/** What an assigner is asked with. */
export interface AssignRequest {
  readonly namespace: string;
  readonly layout: Layout;
  /** The worker IDs that may be answered. */
  readonly pool: PoolBounds;
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
 * Reads a worker ID: a number, or its plain decimal text without sign, space, leading zero, point or exponent.
 * @param source where it was found, for the message.
 * @throws SnowleaseError CONFIG_INVALID when it is anything else, does not fit the layout, or lies outside the pool.
 */
export function parseWorkerId(
  value: unknown,
  source: string,
  { layout, pool }: Pick<AssignRequest, "layout" | "pool">,
): number {
  const number = typeof value === "string" && /^(?:0|[1-9][0-9]{0,9})$/.test(value) ? Number(value) : value;
  const isWorkerId = typeof number === "number" && Number.isInteger(number);
  if (!isWorkerId || number < 0 || number > layout.pool.last) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`workerId\` to be an integer from 0 to ${layout.pool.last} (${layout.workerBits} bits), got ${shown(value)}; correct ${source}.`,
    );
  }
  if (number < pool.first || number > pool.last) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`workerId\` to be in the pool ${formatPool(pool)}, got ${shown(value)}; correct ${source}, or the pool.`,
    );
  }
  return number;
}

function checkAnswer(answer: unknown, { name }: WorkerIdAssigner, request: AssignRequest): number | Lease | undefined {
  if (answer === undefined || answer instanceof Lease) return answer;
  if (typeof answer === "number") return parseWorkerId(answer, `the assigner ${shownName(name)}`, request);
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
