import type { ServerAddress } from "../../core/address.ts";
import { isSnowleaseError, shown, SnowleaseError } from "../../core/errors.ts";
import { Layout, type PoolBounds } from "../../core/layout.ts";
import {
  type ClaimRequest,
  defaultLimits,
  type Grant,
  type NamespaceLimits,
  type Refusal,
  type Registry,
  type WorkerRecord,
} from "../../core/registry.ts";
import {
  checkClaim,
  checkLayout,
  checkLimits,
  checkOwner,
  checkPin,
  checkReset,
  checkSkew,
  checkWindow,
  noNamespace,
  pinnedRecord,
  refusalOf,
  released,
  renewed,
} from "../../core/window.ts";
import { openConnection } from "./connection.ts";
import { withLock } from "./lock.ts";
import { isGone, place, self } from "./processes.ts";
import { checkEviction, promiseOf } from "./promise.ts";
import { foreignHolder, historyRowOf, infoOf, recordOf, workerOf } from "./records.ts";
import { type Answer, type Arguments, maybeNumber, numberAt, numberOf, scriptsOn, textOf } from "./scripts.ts";
import { parseSettings } from "./settings.ts";

interface RedisOptions {
  /** Deadline of one operation, connecting included, ms. */
  readonly operationTimeout: number;
}

/** Of the keys: what `sql/redis/prologue.lua` lists. */
const schemaVersion = 1;
/** Rows that one script lists, deletes or looks through: no other client waits longer than that takes. */
const page = 500;
/** Where westid's Java processes count to; above it nobody else takes numbers. */
const foreignLast = 1023;
/** How often a claim looks at processes that may have died before it takes what it can get. */
const mostLooks = 3;

/**
 * A registry in Redis, in the key layout that westid made known. Each operation is one script and one round trip; the clock is the
 * server's. A server that may have forgotten what it acknowledged answers QUARANTINE until every window has passed that it may
 * have granted: `sql/redis/prologue.lua`.
 *
 * @throws SnowleaseError CONFIG_INVALID for settings that make no sense, DRIVER_MISSING. It connects when it is first asked.
 */
export async function redisRegistry(address: ServerAddress, { operationTimeout }: RedisOptions): Promise<Registry> {
  const settings = parseSettings(address);
  const connection = await openConnection(address, settings, { operationTimeout });
  const scripts = scriptsOn(connection);
  const lag = settings.maxLag;
  let checking: Promise<void> | undefined;
  let checked = false;

  /** The prefix of a namespace's keys; on a cluster they have to lie together. */
  function prefixOf(namespace: string): string {
    const prefix = namespace === "default" ? "workerId" : `workerId/${namespace}`;
    return connection.cluster ? `{${prefix}}` : prefix;
  }

  async function run(
    name: string,
    namespace: string,
    args: Arguments,
    deadline: number = connection.deadline(),
  ): Promise<Answer> {
    if (!checked) await allowed(deadline);
    return scripts.run(deadline, name, prefixOf(namespace), args);
  }

  /** A server that deletes keys as it likes forgets windows without anybody noticing. */
  async function allowed(deadline: number): Promise<void> {
    checking ??= checkEviction(connection, deadline);
    try {
      await checking;
      checked = true;
    } finally {
      checking = undefined;
    }
  }

  /** The same where it may have to be confirmed by replicas. `undo`: what was not. */
  function runConfirmed(
    name: string,
    namespace: string,
    args: Arguments,
    undo: (answer: Answer) => Promise<unknown>,
    deadline: number = connection.deadline(),
  ): Promise<Answer> {
    return settings.wait === 0
      ? run(name, namespace, args, deadline)
      : confirmed(name, namespace, args, undo, deadline);
  }

  async function confirmed(
    name: string,
    namespace: string,
    args: Arguments,
    undo: (answer: Answer) => Promise<unknown>,
    deadline: number,
  ): Promise<Answer> {
    if (!checked) await allowed(deadline);
    // A script that is not known there is sent twice, and each time waited for.
    const patience = Math.max(1, Math.floor(operationTimeout / 3));
    const [answer, replicas] = await scripts.runWith(deadline, name, prefixOf(namespace), args, [
      "WAIT",
      settings.wait,
      patience,
    ]);
    if (answer.outcome !== "granted" && answer.outcome !== "renewed") return answer;
    if (typeof replicas === "number" && replicas >= settings.wait) return answer;
    await undo(answer);
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `Redis ${connection.where} had ${typeof replicas === "number" ? replicas : 0} of ${settings.wait} replicas confirm within ${patience} ms (\`wait\`): look at its replicas.`,
    );
  }

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
      lag,
      ...looked,
    };
    const undo = async (answer: Answer): Promise<void> => {
      const { workerId, fence, from, recents } = grantedBy(answer);
      const used = { until: from, recents };
      await registry.release({ namespace, workerId, fence, token, clock, used }).catch(() => undefined);
    };
    return runConfirmed("claim", namespace, args, undo, deadline);
  }

  /** Looks whether the processes that hold these claims still run: name of a claim, its process. */
  async function claimBehind(request: ClaimRequest, { fields }: Answer, deadline: number): Promise<Answer> {
    const gone: string[] = [];
    const there: string[] = [];
    let unclear = fields;
    return withLock(
      connection,
      `${prefixOf(request.namespace)}:lok:lease@${request.holder.ip}`,
      operationTimeout,
      deadline,
      async () => {
        for (let look = 1; ; look++) {
          for (const name of unclear.keys()) (isGone(textOf(unclear, name)) ? gone : there).push(name);
          const looked = { looks: look < mostLooks, gone: gone.join(" "), there: there.join(" ") };
          const answer = await claimOnce(request, looked, deadline);
          if (answer.outcome !== "look") return answer;
          unclear = answer.fields;
        }
      },
    );
  }

  const registry: Registry = {
    kind: "redis",

    async init(request) {
      const { namespace, layout, maxWindow, maxClockSkew } = request;
      checkCaps(request);
      const info = infoOf((await run("init", namespace, { layout, maxWindow, maxClockSkew, lag })).fields);
      checkLayout(namespace, layout, info);
      checkLimits(namespace, request, info);
      return info;
    },

    async describe(namespace) {
      const { outcome, fields } = await run("describe", namespace, {});
      return outcome === "absent" ? undefined : infoOf(fields);
    },

    async claim(request) {
      checkCaps(request.limits ?? {});
      const deadline = connection.deadline();
      const looks = place !== undefined && request.holder.pid === process.pid ? true : undefined;
      const first = await claimOnce(request, { looks }, deadline);
      return claimAnswer(first.outcome === "look" ? await claimBehind(request, first, deadline) : first, request);
    },

    async renew(request) {
      const { namespace, workerId, fence, token, clock, window, checkpoint } = request;
      const args = { workerId, fence, token, clock, window, lag, ...checkpointArguments(checkpoint) };
      // What no replica has confirmed is in force here all the same: the holder goes on with the window that it had.
      const answer = await runConfirmed("renew", namespace, args, async () => undefined);
      const { outcome } = answer;
      if (outcome === "lost") return { outcome };
      if (outcome === "renewed") {
        return { outcome, from: numberAt(answer, 1), until: numberAt(answer, 2), clock: numberAt(answer, 0) };
      }
      const { fields } = answer;
      const now = numberOf(fields, "clock");
      const info = infoOf(fields);
      checkWindow(window, info);
      checkSkew(clock, now, info);
      if (fields.has("workerId")) renewed(recordOf(fields), request, now);
      throw unclear("renew");
    },

    async release(request) {
      const { namespace, workerId, fence, token, clock, used } = request;
      const { outcome, fields } = await run("release", namespace, {
        workerId,
        fence,
        token,
        clock,
        ends: used?.until,
        ...checkpointArguments(used?.checkpoint),
        recentFrom: used?.recents?.from,
        recent: used?.recents?.bytes,
        lag,
      });
      if (outcome === "lost" || outcome === "released") return { outcome };
      released(recordOf(fields), request, numberOf(fields, "clock"));
      throw unclear("release");
    },

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      for (let next: number | undefined = after; next !== undefined && found.length < most;) {
        const { fields, rows } = await run("workers", namespace, { after: next, limit: page, foreignLast });
        const clock = numberOf(fields, "clock");
        const shown = rows.map((row) => workerOf(row, clock)).toSorted((a, b) => a.workerId - b.workerId);
        found.push(...shown.filter((record) => state === undefined || record.state === state));
        next = maybeNumber(fields, "next");
      }
      return found.slice(0, most);
    },

    async worker(namespace, workerId) {
      const { outcome, fields } = await run("worker", namespace, { workerId });
      return outcome === "absent" ? undefined : workerOf(fields, numberOf(fields, "clock"));
    },

    async history(namespace, workerId, { from = -8.64e15, until = 8.64e15, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found = [];
      for (let below: number | undefined = Number.MAX_SAFE_INTEGER; below !== undefined && found.length < most;) {
        const args: Arguments = { workerId, from, till: until, below, limit: most - found.length };
        const { fields, rows } = await run("history", namespace, args);
        found.push(...rows.map(historyRowOf));
        below = maybeNumber(fields, "next");
      }
      return found.toReversed();
    },

    async forceRelease(request) {
      checkReset(request);
      const { namespace, workerId, force, fence, resetWindow = false } = request;
      const args = { workerId, force, fence, resetWindow, lag };
      const { outcome, fields } = await run("force-release", namespace, args);
      if (outcome === "absent") return { outcome };
      if (outcome === "released") return { outcome, until: numberOf(fields, "until") };
      const { fence: standing, holder = { host: "", ip: "", pid: 0, instance: "" }, until } = recordOf(fields);
      return outcome === "superseded"
        ? { outcome, fence: standing, holder, until }
        : { outcome: "live", holder, until };
    },

    async pin(namespace, workerId, reason, owner) {
      const info = await registry.describe(namespace);
      if (info === undefined) throw noNamespace(namespace);
      checkPin(workerId, reason, info);
      checkOwner(workerId, owner, 0, { ...info, maxWindow: Infinity });
      const args = { workerId, reason, lag, owner: owner?.ip, usedUntil: owner?.usedUntil };
      const { outcome, fields } = await run("pin", namespace, args);
      if (outcome !== "refused") return;
      checkOwner(workerId, owner, numberOf(fields, "clock"), infoOf(fields));
      pinnedRecord(recordOf(fields), reason, owner);
      throw unclear("pin");
    },

    async unpin(namespace, workerId) {
      return (await run("unpin", namespace, { workerId, lag })).outcome === "unpinned";
    },

    async prune(namespace, before) {
      let pruned = 0;
      for (let count = page; count === page; pruned += count) {
        count = numberOf((await run("prune", namespace, { before, limit: page })).fields, "count");
      }
      return pruned;
    },

    async ping() {
      const told = ["CONFIG", "GET"] as const;
      const [{ fields }, ...config] = await scripts.runWith(
        connection.deadline(),
        "ping",
        prefixOf("default"),
        {},
        [...told, "append*"],
        [...told, "min-replicas-*"],
      );
      return { clock: numberOf(fields, "clock"), promise: promiseOf(settings, config), schema: schemaVersion };
    },

    close: () => connection.close(),
  };
  return registry;

  function unclear(script: string): SnowleaseError {
    return new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `Redis ${connection.where} refused what the script ${script} was asked, and does not say why: look whether it is of this version.`,
    );
  }

  function claimAnswer(answer: Answer, request: ClaimRequest): Grant | Refusal {
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
        throw unclear("claim");
      }
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

function checkpointArguments(checkpoint: { timestamp: number; sequence: number } | undefined): Arguments {
  return checkpoint === undefined ? {} : { lastTimestamp: checkpoint.timestamp, lastSequence: checkpoint.sequence };
}

/** A Redis that lost everything waits as long as windows of the usual limits last: no others may be out there then. */
function checkCaps(limits: Partial<NamespaceLimits>): void {
  for (const name of ["maxWindow", "maxClockSkew"] as const) {
    const [value = 0, most] = [limits[name], defaultLimits[name]];
    if (value <= most) continue;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`${name}\` to be at most ${most} ms in Redis, which may forget it, got ${shown(value)}; ask for less, or use another registry.`,
    );
  }
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
