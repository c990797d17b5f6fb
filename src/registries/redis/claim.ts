import { isSnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import type { ClaimRequest, Grant, Refusal, Registry } from "../../rule/registry.ts";
import { checkClaim, checkLimits, refusalOf } from "../../rule/window.ts";
import type { Calls } from "./calls.ts";
import type { Connection } from "./connection.ts";
import { withLock } from "./lock.ts";
import { isGone, place, self } from "./processes.ts";
import { foreignHolder, infoOf, recordOf } from "./records.ts";
import { type Answer, type Arguments, maybeNumber, numberAt, numberOf, textOf, unclear } from "./scripts.ts";
import type { RedisSettings } from "./address.ts";

/** How often a claim looks at processes that may have died before it takes what it can get. */
const mostLooks = 3;

interface ClaimOptions {
  readonly settings: RedisSettings;
  /** Deadline of one operation, ms. */
  readonly operationTimeout: number;
  /** Gives back what was granted, and could not be confirmed. */
  readonly release: Registry["release"];
}

/** The claim of a worker ID: one script, and more where it has to be looked whether processes of this host still run. */
export function claimOn(
  connection: Connection,
  calls: Calls,
  { settings, operationTimeout, release }: ClaimOptions,
): Registry["claim"] {
  async function claimOnce(request: ClaimRequest, looked: Arguments, deadline: number): Promise<Answer> {
    const { namespace, token, workerId, pool, preferred, holder, clock, window, layout, reuse, limits } = request;
    const { continues = true, lead } = request;
    const { host, ip, pid, instance } = holder;
    const own = pid === process.pid;
    const args = {
      token,
      clock,
      window,
      layout,
      host,
      ip,
      pid,
      instance,
      wanted: workerId,
      reuse,
      continues,
      lead,
      first: pool.first,
      last: pool.last,
      pool: isWhole(request) ? "*" : `${pool.first}-${pool.last}`,
      preferred: preferred
        ?.slice(0, 8)
        .filter((id) => Number.isSafeInteger(id) && id >= 0)
        .join(" "),
      maxWindow: limits?.maxWindow,
      maxClockSkew: limits?.maxClockSkew,
      beside: settings.beside,
      process: own ? self : undefined,
      lag: settings.maxLag,
      ...looked,
    };
    const undo = async (answer: Answer): Promise<void> => {
      const { workerId, fence, from, recents } = grantedBy(answer);
      const used = { until: from, recents };
      await release({ namespace, workerId, fence, token, clock, used }).catch(() => undefined);
    };
    for (;;) {
      const answer = await calls.runConfirmed("claim", namespace, args, undo, deadline);
      // A pool with new limits: each call files some of its records, so that others are served in between.
      if (answer.outcome !== "unfiled") return answer;
    }
  }

  /** Looks whether the processes that hold these claims still run: name of a claim, its process. */
  async function claimBehind(request: ClaimRequest, { fields }: Answer, deadline: number): Promise<Answer> {
    const gone: string[] = [];
    const there: string[] = [];
    let doubtful = fields;
    return withLock(
      connection,
      `${calls.prefixOf(request.namespace)}:lok:lease@${request.holder.ip}`,
      operationTimeout,
      deadline,
      async () => {
        for (let look = 1; ; look++) {
          for (const name of doubtful.keys()) (isGone(textOf(doubtful, name)) ? gone : there).push(name);
          const looked = { looks: look < mostLooks, gone: gone.join(" "), there: there.join(" ") };
          const answer = await claimOnce(request, looked, deadline);
          if (answer.outcome !== "look") return answer;
          doubtful = answer.fields;
        }
      },
    );
  }

  return async (request) => {
    const deadline = connection.deadline();
    const looks = place !== undefined && request.holder.pid === process.pid ? true : undefined;
    const first = await claimOnce(request, { looks }, deadline);
    const answer = first.outcome === "look" ? await claimBehind(request, first, deadline) : first;
    return claimAnswer(answer, request, connection.where);
  };
}

/** What the script's answer means to the claimer. */
function claimAnswer(answer: Answer, request: ClaimRequest, where: string): Grant | Refusal {
  if (answer.outcome === "granted") return grantedBy(answer);
  const { outcome, fields } = answer;
  const clock = numberOf(fields, "clock");
  switch (outcome) {
    case "held":
      return refusalOf(recordOf(fields), request, clock, infoOf(fields));
    case "exhausted": {
      const pool = { first: numberOf(fields, "first"), last: numberOf(fields, "last") };
      return { outcome, pool, freeAt: maybeNumber(fields, "freeAt"), clock };
    }
    case "foreign":
      return { outcome, workerId: numberOf(fields, "workerId"), holder: foreignHolder(textOf(fields, "use")), clock };
    default: {
      const info = infoOf(fields);
      checkLimits(request.namespace, request.limits ?? {}, info);
      checkClaim(request, clock, info);
      throw unclear("claim", where);
    }
  }
}

/** The grant that a claim was answered with: its header in `sql/redis/claim.lua`. */
function grantedBy(answer: Answer): Grant {
  const [rollback, recentFrom, bytes] = answer.values.slice(6);
  return {
    outcome: "granted",
    clock: numberAt(answer, 0),
    workerId: numberAt(answer, 1),
    fence: numberAt(answer, 2),
    from: numberAt(answer, 3),
    until: numberAt(answer, 4),
    ...(typeof rollback === "number" && { rollback }),
    ...(typeof recentFrom === "number" && {
      recents: { from: recentFrom, bytes: bytes instanceof Uint8Array ? Uint8Array.from(bytes) : new Uint8Array() },
    }),
  };
}

/** The layouts that claims were made with, and all of their worker IDs: it is the same one each time. */
const wholes = new Map<string, PoolBounds | undefined>();

/** Whether a claim may have any worker ID of its layout. */
function isWhole({ layout, pool }: ClaimRequest): boolean {
  if (!wholes.has(layout)) {
    // Whoever asks for many claims for many.
    if (wholes.size === 100) wholes.clear();
    wholes.set(layout, wholeOf(layout));
  }
  const whole = wholes.get(layout);
  return whole?.first === pool.first && whole.last === pool.last;
}

function wholeOf(layout: string): PoolBounds | undefined {
  try {
    return Layout.parse(layout).pool;
  } catch (error) {
    if (isSnowleaseError(error)) return undefined;
    throw error;
  }
}
