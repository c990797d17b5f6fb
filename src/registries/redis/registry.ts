import { highestWorkerId } from "../../id/layout.ts";
import type { ServerAddress } from "../url.ts";
import { shown, SnowleaseError, timeText } from "../../id/errors.ts";
import {
  defaultLimits,
  type NamespaceLimits,
  type Pin,
  type Registry,
  type WorkerRecord,
} from "../../rule/registry.ts";
import { notNew, presentNamespace } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord } from "../../rule/pin.ts";
import { checkLayout, checkLimits, checkReset, checkSkew, checkWindow, released, renewed } from "../../rule/window.ts";
import { callsOn } from "./calls.ts";
import { claimOn } from "./claim.ts";
import { openConnection } from "./connection.ts";
import { promiseOf } from "./durability.ts";
import { historyRowOf, infoOf, recordOf, workerOf } from "./records.ts";
import { type Arguments, type Fields, maybeNumber, numberAt, numberOf, textOf, unclear } from "./scripts.ts";
import { parseSettings } from "./address.ts";

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
  const calls = callsOn(connection, { wait: settings.wait, operationTimeout });
  const release: Registry["release"] = (request) => registry.release(request);
  const claim = claimOn(connection, calls, { settings, operationTimeout, release });
  const lag = settings.maxLag;

  /** A key of ours in a namespace, beside those that `init` itself makes. */
  async function standing(namespace: string): Promise<string | undefined> {
    const deadline = connection.deadline();
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const { fields } = await calls.run("standing", namespace, { cursor }, deadline);
      if (fields.has("key")) return textOf(fields, "key");
      cursor = fields.has("next") ? textOf(fields, "next") : undefined;
    }
    return undefined;
  }

  const registry: Registry = {
    kind: "redis",

    async init(request) {
      const { namespace, layout, maxWindow, maxClockSkew, new: isNew = false } = request;
      checkCaps(request);
      const found = isNew ? await standing(namespace) : undefined;
      const args = { layout, maxWindow, maxClockSkew, lag, isNew, found };
      const { outcome, fields } = await calls.run("init", namespace, args);
      if (outcome === "stands") throw notNew(namespace, evidenceOf(fields, connection.where));
      const info = infoOf(fields);
      checkLayout(namespace, layout, info);
      checkLimits(namespace, request, info);
      return info;
    },

    async describe(namespace) {
      const { outcome, fields } = await calls.run("describe", namespace, {});
      return outcome === "absent" ? undefined : infoOf(fields);
    },

    async claim(request) {
      checkCaps(request.limits ?? {});
      return claim(request);
    },

    async renew(request) {
      const { namespace, workerId, fence, token, clock, window, checkpoint } = request;
      const args = { workerId, fence, token, clock, window, lag, ...checkpointArguments(checkpoint) };
      // What no replica has confirmed is in force here all the same: the holder goes on with the window that it had.
      const answer = await calls.runConfirmed("renew", namespace, args, async () => undefined);
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
      throw unclear("renew", connection.where);
    },

    async release(request) {
      const { namespace, workerId, fence, token, clock, used } = request;
      const { outcome, fields } = await calls.run("release", namespace, {
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
      throw unclear("release", connection.where);
    },

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      for (let next: number | undefined = after; next !== undefined && found.length < most;) {
        const { fields, rows } = await calls.run("workers", namespace, { after: next, limit: page, foreignLast });
        const clock = numberOf(fields, "clock");
        const shown = rows.map((row) => workerOf(row, clock)).toSorted((a, b) => a.workerId - b.workerId);
        found.push(...shown.filter((record) => state === undefined || record.state === state));
        next = maybeNumber(fields, "next");
      }
      return found.slice(0, most);
    },

    async worker(namespace, workerId) {
      const { outcome, fields } = await calls.run("worker", namespace, { workerId });
      return outcome === "absent" ? undefined : workerOf(fields, numberOf(fields, "clock"));
    },

    async history(namespace, workerId, { from = -8.64e15, until = 8.64e15, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found = [];
      for (let below: number | undefined = Number.MAX_SAFE_INTEGER; below !== undefined && found.length < most;) {
        const args: Arguments = { workerId, from, till: until, below, limit: most - found.length };
        const { fields, rows } = await calls.run("history", namespace, args);
        found.push(...rows.map(historyRowOf));
        below = maybeNumber(fields, "next");
      }
      return found.toReversed();
    },

    async forceRelease(request) {
      checkReset(request);
      const { namespace, workerId, force, fence, resetWindow = false } = request;
      const args = { workerId, force, fence, resetWindow, lag };
      const { outcome, fields } = await calls.run("force-release", namespace, args);
      if (outcome === "absent") return { outcome };
      if (outcome === "released") return { outcome, until: numberOf(fields, "until") };
      const { fence: standing, holder = { host: "", ip: "", pid: 0, instance: "" }, until } = recordOf(fields);
      return outcome === "superseded"
        ? { outcome, fence: standing, holder, until }
        : { outcome: "live", holder, until };
    },

    pin: (namespace, workerId, reason, owner) => pinAll(namespace, [{ workerId, reason, owner }]),
    pinAll,
    unpin,

    async unpinAll(namespace, workerIds) {
      const unpinned = await together(workerIds.map((workerId) => unpin(namespace, workerId)));
      return workerIds.filter((_, i) => unpinned[i]);
    },

    async prune(namespace, before) {
      await presentNamespace(registry, namespace);
      let pruned = 0;
      for (let count = page; count === page; pruned += count) {
        count = numberOf((await calls.run("prune", namespace, { before, limit: page })).fields, "count");
      }
      return pruned;
    },

    async ping() {
      const { answer, config } = await calls.ping();
      return { clock: numberOf(answer.fields, "clock"), promise: promiseOf(settings, config), schema: schemaVersion };
    },

    close: () => connection.close(),
  };
  return registry;

  /** One script each, sent without waiting for the answer to the one before. */
  async function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    const info = await presentNamespace(registry, namespace);
    const highest = highestWorkerId(info.layout);
    for (const pin of pins) checkPin(pin, highest, 0, { ...info, maxWindow: Infinity });
    await together(
      pins.map(async (pin) => {
        const { workerId, reason, owner } = pin;
        const args = { workerId, reason, lag, owner: owner?.ip, usedUntil: owner?.usedUntil };
        const { outcome, fields } = await calls.run("pin", namespace, args);
        if (outcome !== "refused") return;
        checkPin(pin, highest, numberOf(fields, "clock"), infoOf(fields));
        pinnedRecord(recordOf(fields), reason, owner);
        throw unclear("pin", connection.where);
      }),
    );
  }

  async function unpin(namespace: string, workerId: number): Promise<boolean> {
    return (await calls.run("unpin", namespace, { workerId, lag })).outcome === "unpinned";
  }
}

/** Waits until all of these have ended. Throws what one threw. */
async function together<Answer>(asked: readonly Promise<Answer>[]): Promise<readonly Answer[]> {
  await Promise.allSettled(asked);
  return Promise.all(asked);
}

function checkpointArguments(checkpoint: { timestamp: number; sequence: number } | undefined): Arguments {
  return checkpoint === undefined ? {} : { lastTimestamp: checkpoint.timestamp, lastSequence: checkpoint.sequence };
}

/** What a script found that contradicts the word that a namespace is new. */
function evidenceOf(fields: Fields, where: string): string {
  const until = maybeNumber(fields, "quarantine");
  return until === undefined
    ? `Redis ${where} holds its key \`${textOf(fields, "key")}\``
    : `Redis ${where} notes a quarantine of it, until ${timeText(until)}`;
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
