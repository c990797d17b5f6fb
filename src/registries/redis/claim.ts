import { monotonic, systemClock } from "../../clock.ts";
import type { ClaimRequest, Grant, Lost, Refusal, Registry } from "../../rule/registry.ts";
import { storedToken } from "../../rule/token.ts";
import { checkClaim, refusalOf } from "../../rule/window.ts";
import { checkLimits } from "../../rule/limits.ts";
import { eraMark, namespaceSecrets } from "../../rule/new-namespace.ts";
import { bytesOf, numberOf, optionalNumber, type ScriptAnswer, textOf, unexplainedRefusal } from "./answers.ts";
import type { RedisConnection } from "./connection.ts";
import { elsewhereError, ownDatabase } from "./elsewhere.ts";
import { withLock } from "./lock.ts";
import { isGone, place, self } from "./processes.ts";
import { foreignHolder, lossOf, recordOf, stateOf } from "./records.ts";
import type { RedisScripts } from "./scripts.ts";

/** A claim looks at most this often at processes that may have died. Then it takes another worker ID. */
const mostLooks = 3;

/** What the caller knows about the processes that held claims of its host. `gone` and `there` have names of claims, as in claim.lua. */
interface ProcessLook {
  /** Whether the script may ask about more processes. */
  readonly looks: boolean;
  readonly gone: readonly string[];
  readonly there: readonly string[];
}

/**
 * Claims a worker ID. This takes one script, or several if the caller has to look whether other processes of its host still run.
 * `release` gives back a grant that too few replicas confirmed.
 */
export function claimOn(
  connection: RedisConnection,
  scripts: RedisScripts,
  release: Registry["release"],
): Registry["claim"] {
  const { maxLag, beside } = connection.settings;
  const database = ownDatabase(connection);

  async function claimOnce(request: ClaimRequest, look: ProcessLook, deadline: number): Promise<ScriptAnswer> {
    const { namespace, token, clock, pool, preferred = [], holder, limits } = request;
    const args = {
      token: storedToken(token),
      clock,
      window: request.window,
      layout: request.layout,
      host: holder.host,
      ip: holder.ip,
      pid: holder.pid,
      instance: holder.instance,
      first: pool.first,
      last: pool.last,
      maxLag,
      reuse: request.reuse,
      continues: request.continues ?? true,
      lead: request.lead,
      process: holder.pid === process.pid ? self : undefined,
      wanted: request.workerId,
      preferred: preferred
        .slice(0, 8)
        .filter((id) => Number.isSafeInteger(id) && id >= 0)
        .join(" "),
      maxWindow: limits?.maxWindow,
      maxClockSkew: limits?.maxClockSkew,
      beside,
      looks: look.looks,
      gone: look.gone.join(" "),
      there: look.there.join(" "),
      mark: eraMark(),
      ...namespaceSecrets(),
      recall: request.recall,
      database,
      part: undefined,
      left: undefined,
      freeAt: undefined,
    };
    const undo = async (answer: ScriptAnswer): Promise<void> => {
      const { workerId, fence, from, recents } = grantedBy(answer);
      const used = { until: from, recents };
      await release({ namespace, workerId, fence, token, clock, used }).catch(() => undefined);
    };
    const begun = monotonic(systemClock);
    let answer = await scripts.run("claim", namespace, args, { undo, deadline });
    while (answer.outcome === "further") {
      const { fields } = answer;
      const rest = { part: numberOf(fields, "part"), left: numberOf(fields, "left") };
      // The claimer's clock has moved on. With the old value, it would seem to have gone back.
      const now = clock + Math.floor(monotonic(systemClock) - begun);
      const more = { ...args, ...rest, clock: now, freeAt: optionalNumber(fields, "freeAt") };
      answer = await scripts.run("claim", namespace, more, { undo, deadline });
    }
    return answer;
  }

  return async (request) => {
    const deadline = connection.deadline();
    const looks = place !== undefined && request.holder.pid === process.pid;
    const gone: string[] = [];
    const there: string[] = [];
    let answer = await claimOnce(request, { looks, gone, there }, deadline);
    if (answer.outcome === "look") {
      const lock = `${scripts.prefixOf(request.namespace)}:lok:lease@${request.holder.ip}`;
      await withLock(connection, lock, deadline, async () => {
        for (let tries = 1; answer.outcome === "look"; tries++) {
          const { fields } = answer;
          for (const name of fields.keys()) (isGone(textOf(fields, name)) ? gone : there).push(name);
          answer = await claimOnce(request, { looks: tries < mostLooks, gone, there }, deadline);
        }
      });
    }
    if (answer.outcome === "elsewhere") throw elsewhereError(connection, request.namespace, answer.fields);
    return claimAnswer(answer, request, connection.where);
  };
}

function claimAnswer(answer: ScriptAnswer, request: ClaimRequest, where: string): Grant | Refusal | Lost {
  if (answer.outcome === "granted") return grantedBy(answer);
  const { outcome, fields } = answer;
  if (outcome === "lost") return lossOf(fields);
  const clock = numberOf(fields, "clock");
  switch (outcome) {
    case "held":
      return refusalOf(recordOf(fields), request, clock, stateOf(fields).info);
    case "exhausted": {
      const pool = { first: numberOf(fields, "first"), last: numberOf(fields, "last") };
      return { outcome, pool, freeAt: optionalNumber(fields, "freeAt"), clock };
    }
    case "foreign":
      return { outcome, workerId: numberOf(fields, "workerId"), holder: foreignHolder(textOf(fields, "use")), clock };
    default: {
      const { info } = stateOf(fields);
      checkLimits(request.namespace, request.limits ?? {}, info);
      checkClaim(request, clock, info);
      throw unexplainedRefusal("claim", where);
    }
  }
}

/** The values have the order of the header of claim.lua. */
function grantedBy(answer: ScriptAnswer): Grant {
  const [rollback, from] = [answer.value(5), answer.value(6)];
  return {
    outcome: "granted",
    clock: answer.number(0),
    workerId: answer.number(1),
    fence: answer.number(2),
    from: answer.number(3),
    until: answer.number(4),
    receipt: answer.text(8),
    ...(typeof rollback === "number" && { rollback }),
    ...(typeof from === "number" && { recents: { from, bytes: bytesOf(answer.value(7)) } }),
  };
}
