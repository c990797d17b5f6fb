import { Layout } from "../../id/layout.ts";
import { monotonic, systemClock } from "../../clock.ts";
import type { RegistryOptions } from "../store-kind.ts";
import type { ServerAddress } from "../url.ts";
import { shown, SnowleaseError, timeText } from "../../id/errors.ts";
import type { HistoryRow, Pin, Registry, WorkerRecord, Turns } from "../../rule/registry.ts";
import {
  assumedLimits,
  checkLayout,
  checkLimits,
  checkSkew,
  checkWindow,
  type NamespaceLimits,
} from "../../rule/limits.ts";
import { notNew, presentNamespace } from "../../rule/namespace.ts";
import { checkPin, pinnedRecord } from "../../rule/pin.ts";
import { checkSealed } from "../../rule/removal.ts";
import { storedToken } from "../../rule/token.ts";
import { checkTurns, mostSentTurns } from "../../rule/turn.ts";
import { checkReset, noNamespace, released, renewed } from "../../rule/window.ts";
import { eraMark, namespaceSecrets } from "../../rule/new-namespace.ts";
import { checkEndable, checkEra, checkUnsealed, eraInfoOf, infoOf } from "../../rule/quarantine.ts";
import { type AnswerFields, numberOf, optionalNumber, optionalText, textOf, unexplainedRefusal } from "./answers.ts";
import { claimOn } from "./claim.ts";
import { openConnection } from "./connection.ts";
import type { RedisCommand, RedisReply } from "./driver.ts";
import { durabilityOf } from "./durability.ts";
import { databasesIn, elsewhereError, ownDatabase, placeOf } from "./elsewhere.ts";
import { historyRowOf, lossOf, recordOf, stateOf, workerOf } from "./records.ts";
import { scriptsOn } from "./scripts.ts";

/** The version of the keys that `sql/redis/includes/namespace.lua` lists. */
const schemaVersion = 2;
/** One script reads or deletes at most this many rows, because other clients wait meanwhile. */
const page = 500;
/** The highest worker ID that Java processes of westid take. */
const foreignLast = 1023;
/** Pause between two checks whether the server asks for a password, ms. The server may log each wrong password. */
const checkPause = 60_000;

/**
 * A registry in Redis, in the key layout of westid. Each operation is one script and one round trip. The clock is the server's. A server
 * that may have forgotten windows answers QUARANTINE until all of these windows have passed: `sql/redis/includes/quarantine.lua`. The first
 * operation connects.
 *
 * @throws SnowleaseError CONFIG_INVALID for impossible settings, DRIVER_MISSING.
 */
export async function redisRegistry(
  address: ServerAddress,
  { operationTimeout }: Pick<RegistryOptions, "operationTimeout">,
): Promise<Registry> {
  const connection = await openConnection(address, operationTimeout);
  const scripts = scriptsOn(connection);
  const claim = claimOn(connection, scripts, (request) => registry.release(request));
  const { where, settings } = connection;
  const { maxLag } = settings;
  // Drawn once, because drawing takes as long as the rest of a renewal here. That is safe: one server numbers its eras, and no two servers
  // share a connection.
  const mark = eraMark();
  const database = ownDatabase(connection);
  let unguarded = false;
  let nextCheck = -Infinity;

  /** A key that shows that the namespace exists. */
  async function findKey(namespace: string): Promise<string | undefined> {
    const deadline = connection.deadline();
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const { fields } = await scripts.run("find-key", namespace, { cursor }, { deadline });
      if (fields.has("key")) return textOf(fields, "key");
      cursor = optionalText(fields, "next");
    }
    return undefined;
  }

  const registry: Registry = {
    kind: "redis",

    async init(request) {
      const { namespace, layout, maxWindow, maxClockSkew, new: isNew = false } = request;
      checkCaps(request);
      const found = isNew ? await findKey(namespace) : undefined;
      const limits = { layout, maxWindow, maxClockSkew, maxLag };
      const own = request.separate === true ? undefined : database;
      const args = { ...limits, isNew, found, mark, ...namespaceSecrets(), database: own };
      const { outcome, fields } = await scripts.run("init", namespace, args);
      if (outcome === "elsewhere") throw elsewhereError(connection, namespace, fields);
      if (outcome === "exists")
        throw notNew(namespace, evidenceOf(fields, where), optionalText(fields, "lasts") === "1");
      const state = stateOf(fields);
      const info = infoOf(state);
      checkLayout(namespace, layout, info);
      checkLimits(namespace, request, info);
      checkUnsealed(state, namespace, `Redis ${where}`);
      return info;
    },

    async describe(namespace) {
      const { outcome, fields } = await scripts.run("describe", namespace, {});
      return outcome === "absent" ? undefined : infoOf(stateOf(fields));
    },

    async receiptKey(namespace) {
      const { outcome, fields } = await scripts.run("receipt-key", namespace, {});
      return outcome === "absent" ? undefined : textOf(fields, "key");
    },

    async endQuarantine(request) {
      const { namespace, era } = request;
      const { outcome, fields } = await scripts.run("end-quarantine", namespace, { era });
      if (outcome === "absent") throw noNamespace(namespace);
      const state = stateOf(fields);
      checkEra(request, state.era);
      if (state.clock < state.opensAt) checkEndable(namespace, state);
      return state.info.layout === "" ? eraInfoOf(state) : infoOf(state);
    },

    async separate(request) {
      const { namespace, era } = request;
      const args = { era, maxLag, mark: eraMark(), ...namespaceSecrets() };
      const { outcome, fields } = await scripts.run("separate", namespace, args);
      if (outcome === "absent") throw noNamespace(namespace);
      const state = stateOf(fields);
      if (state.info.id !== args.id) checkEra(request, state.era);
      checkUnsealed(state, namespace, `Redis ${where}`);
      return infoOf(state);
    },

    async remove({ namespace, era, forget = false }) {
      const sealed = await scripts.run("seal", namespace, { era, maxLag, mark: eraMark() });
      if (sealed.outcome === "absent") throw noNamespace(namespace);
      if (sealed.outcome === "present") checkEra({ namespace, era }, stateOf(sealed.fields).era);
      const id = optionalText(sealed.fields, "id");
      // Each script stores the last use of the records that it deletes.
      for (let cursor: string | undefined = "0"; cursor !== undefined;) {
        const args = { cursor, limit: page, forget, maxLag, mark: eraMark(), id };
        const { outcome, fields } = await scripts.run("erase", namespace, args);
        if (outcome === "opened") checkSealed(namespace, stateOf(fields));
        cursor = optionalText(fields, "next");
      }
    },

    async claim(request) {
      checkCaps(request.limits ?? {});
      return claim(request);
    },

    async renew(request) {
      checkTurns(request);
      const { namespace, workerId, fence, clock, window, checkpoint } = request;
      const token = storedToken(request.token);
      const [lastTimestamp, lastSequence] = [checkpoint?.timestamp, checkpoint?.sequence];
      const answer = await scripts.run(
        "renew",
        namespace,
        {
          workerId,
          fence,
          token,
          clock,
          window,
          maxLag,
          mark,
          lastTimestamp,
          lastSequence,
          turns: turnsArgument(request),
          nextTurn: request.nextTurn,
          receiptText: request.receipt,
        },
        // A renewal that no replica confirmed is in force on this server. The holder continues with its earlier window.
        { undo: async () => undefined },
      );
      const { outcome } = answer;
      if (outcome === "renewed") {
        const [from, until] = [answer.number(1), answer.number(2)];
        return { outcome, clock: answer.number(0), from, until, turn: answer.text(3), receipt: answer.text(4) };
      }
      const { fields } = answer;
      if (outcome === "lost") return lossOf(fields);
      const { info, clock: now } = stateOf(fields);
      checkWindow(window, info);
      checkSkew(clock, now, info);
      if (fields.has("workerId")) renewed(recordOf(fields), request, now);
      throw unexplainedRefusal("renew", where);
    },

    async release(request) {
      const { namespace, workerId, fence, clock, used } = request;
      const token = storedToken(request.token);
      const { outcome, fields } = await scripts.run("release", namespace, {
        workerId,
        fence,
        token,
        clock,
        ends: used?.until,
        lastTimestamp: used?.checkpoint?.timestamp,
        lastSequence: used?.checkpoint?.sequence,
        recentFrom: used?.recents?.from,
        recent: used?.recents?.bytes,
        maxLag,
        mark,
        turns: turnsArgument(request),
        receiptText: request.receipt,
      });
      if (outcome === "released") return { outcome };
      if (outcome === "lost") return lossOf(fields);
      released(recordOf(fields), request, numberOf(fields, "clock"));
      throw unexplainedRefusal("release", where);
    },

    async workers(namespace, { state, after = -1, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: WorkerRecord[] = [];
      for (let next: number | undefined = after; next !== undefined && found.length < most;) {
        const { fields, rows } = await scripts.run("workers", namespace, { after: next, limit: page, foreignLast });
        const clock = numberOf(fields, "clock");
        const shown = rows.map((row) => workerOf(row, clock)).toSorted((a, b) => a.workerId - b.workerId);
        found.push(...shown.filter((record) => state === undefined || record.state === state));
        next = optionalNumber(fields, "next");
      }
      return found.slice(0, most);
    },

    async worker(namespace, workerId) {
      const { outcome, fields } = await scripts.run("worker", namespace, { workerId });
      return outcome === "absent" ? undefined : workerOf(fields, numberOf(fields, "clock"));
    },

    async history(namespace, workerId, { from = -8.64e15, until = 8.64e15, limit = 1000 } = {}) {
      const most = Math.min(limit, 10_000);
      const found: HistoryRow[] = [];
      for (let below: number | undefined = Number.MAX_SAFE_INTEGER; below !== undefined && found.length < most;) {
        const args = { workerId, from, to: until, below, limit: most - found.length };
        const { fields, rows } = await scripts.run("history", namespace, args);
        found.push(...rows.map(historyRowOf));
        below = optionalNumber(fields, "next");
      }
      return found.toReversed();
    },

    async forceRelease(request) {
      checkReset(request);
      const { namespace, workerId, force, fence, resetWindow = false } = request;
      const args = { workerId, force, fence, resetWindow, maxLag, mark };
      const { outcome, fields } = await scripts.run("force-release", namespace, args);
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
        count = numberOf((await scripts.run("prune", namespace, { before, limit: page })).fields, "count");
      }
      return pruned;
    },

    scope: async () => `all who use ${placeOf(connection)}`,

    async elsewhere(namespace) {
      const { fields } = await scripts.run("elsewhere", namespace, { database });
      return databasesIn(fields);
    },

    async ping() {
      const isDue = monotonic(systemClock) >= nextCheck;
      if (isDue) nextCheck = monotonic(systemClock) + checkPause;
      const { answer, config, login } = await scripts.ping(isDue ? passwordCheck(address) : undefined);
      if (login !== undefined) unguarded = isUnguarded(login);
      return {
        clock: numberOf(answer.fields, "clock"),
        ...durabilityOf(settings, config),
        schema: schemaVersion,
        ...(unguarded && { unguarded }),
      };
    },

    close: () => connection.close(),
  };
  return registry;

  /** Sends one script for each pin, all at the same time. */
  async function pinAll(namespace: string, pins: readonly Pin[]): Promise<void> {
    const info = await presentNamespace(registry, namespace);
    const highest = Layout.parse(info.layout).pool.last;
    for (const pin of pins) checkPin(pin, highest, 0, { ...info, maxWindow: Infinity });
    await together(
      pins.map(async (pin) => {
        const { workerId, reason, owner } = pin;
        const args = { workerId, reason, maxLag, owner: owner?.ip, usedUntil: owner?.usedUntil, mark };
        const { outcome, fields } = await scripts.run("pin", namespace, args);
        if (outcome !== "refused") return;
        checkPin(pin, highest, numberOf(fields, "clock"), stateOf(fields).info);
        pinnedRecord(recordOf(fields), reason, owner);
        throw unexplainedRefusal("pin", where);
      }),
    );
  }

  async function unpin(namespace: string, workerId: number): Promise<boolean> {
    return (await scripts.run("unpin", namespace, { workerId, maxLag, mark })).outcome === "unpinned";
  }
}

/** Waits until all of these have ended. Then throws the first error, if there is one. */
async function together<Result>(running: readonly Promise<Result>[]): Promise<readonly Result[]> {
  await Promise.allSettled(running);
  return Promise.all(running);
}

/** The turns that the record of a holder may have, as an argument of a script. */
function turnsArgument({ turn = "", nextTurn = "", sentTurns = [] }: Turns): string {
  return ` ${turn} ${nextTurn} ${sentTurns.slice(0, mostSentTurns).join(" ")} `;
}

/** Logs in again, as the driver did. A server that asks for no password reports that, but not to each driver. */
function passwordCheck({ user = "default", password }: ServerAddress): RedisCommand | undefined {
  return user === "default" && password !== undefined ? ["AUTH", password] : undefined;
}

/** Whether a server that got a password asks for none, and so accepts any password. */
function isUnguarded(reply: RedisReply | Error | undefined): boolean {
  return reply instanceof Error && /without any password|no password is set/.test(reply.message);
}

/** Why a namespace is not new. */
function evidenceOf(fields: AnswerFields, where: string): string {
  const until = optionalNumber(fields, "quarantineEnd");
  return until === undefined
    ? `Redis ${where} holds its key \`${textOf(fields, "key")}\``
    : `Redis ${where} notes a quarantine of it, until ${timeText(until)}`;
}

/** A Redis that lost everything knows no limits. It waits as long as windows of the assumed limits last, so no window may be longer. */
function checkCaps(limits: Partial<NamespaceLimits>): void {
  for (const name of ["maxWindow", "maxClockSkew"] as const) {
    const [value = 0, most] = [limits[name], assumedLimits[name]];
    if (value <= most) continue;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`${name}\` to be at most ${most} ms in Redis, which may forget it, got ${shown(value)}; ask for less, or use another registry.`,
    );
  }
}
