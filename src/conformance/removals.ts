import { isSnowleaseError } from "../id/errors.ts";
import type { NamespaceLimits } from "../rule/limits.ts";
import type { Grant, Lost, RemoveRequest, Renewal } from "../rule/registry.ts";
import { ensure, equal, outcome, refuses } from "./assert.ts";
import { checkNew, type ConformanceCheck } from "./check.ts";
import { known } from "./receipts.ts";
import { hour, newToken, on, short, type Trial } from "./trial.ts";

/** Limits whose quarantine a check waits for, ms. */
const brief: NamespaceLimits = { maxWindow: 100, maxClockSkew: 700 };
/** More worker IDs than a store takes in one answer or one write. */
const many = 130;
/** Worker IDs of a race, and requests for each. */
const [racers, laps] = [4, 6];

/** An operator removes the namespace. */
async function remove(trial: Trial, options: Partial<RemoveRequest> = {}): Promise<void> {
  const { registry, namespace } = trial;
  ensure(registry.remove !== undefined, "a registry that can remove namespaces to have `remove`", registry.kind);
  const { era = "" } = (await registry.describe(namespace)) ?? {};
  await registry.remove({ namespace, era, ...options });
}

/** Makes the namespace again, and waits until it grants. */
async function remade(trial: Trial): Promise<void> {
  const { quarantineUntil = 0 } = await trial.init(brief);
  await trial.passed(quarantineUntil);
}

/** Checks that the holder must wait for the end of the quarantine, or that its lease is over. */
async function refusedOrLost(renewal: Promise<Renewal | Lost>): Promise<void> {
  try {
    outcome(await renewal, "lost", "a renewal");
  } catch (error) {
    if (!isSnowleaseError(error, "QUARANTINE")) throw error;
  }
}

/** A namespace that an operator removes. */
export const removals: readonly ConformanceCheck[] = [
  checkNew(
    "a removed namespace is unknown, with its worker IDs and their history; other namespaces stay",
    async (trial) => {
      const { registry, namespace } = trial;
      await trial.init({ ...brief, new: true });
      const neighbour = await trial.otherNamespace();
      const neighbours = async () => [await registry.describe(neighbour), await registry.workers(neighbour)];
      const kept = await trial.claim({ namespace: neighbour, workerId: 7 });
      await trial.released(await trial.claim({ workerId: 3, window: short }));
      await trial.claim({ workerId: 7, window: short });
      await trial.pin(9, "kept", { ip: "192.0.2.9" });
      const before = await neighbours();
      await remove(trial);
      equal(await trial.describe(), undefined, "what is known of it");
      equal(await trial.records(), [], "its worker IDs");
      for (const workerId of [3, 7, 9]) {
        equal(await registry.worker(namespace, workerId), undefined, `worker ${workerId}`);
        equal(await trial.history(workerId), [], `the history of worker ${workerId}`);
      }
      equal(await neighbours(), before, "the other namespace");
      outcome(await registry.renew({ ...kept.key, clock: trial.now(), window: short }), "renewed", "a renewal in it");
    },
    "removals",
  ),

  checkNew(
    "a namespace that is made again after its removal begins behind each window that it granted",
    async (trial) => {
      await trial.init({ ...brief, new: true });
      const given = await trial.claim({ workerId: 3, window: brief.maxWindow, clock: trial.now() });
      const crashed = await trial.claim({ workerId: 7, window: brief.maxWindow });
      const usedUntil = trial.now() + brief.maxClockSkew;
      await trial.pin(9, "kept", { ip: "192.0.2.9", usedUntil });
      await trial.released(given);
      await remove(trial);
      // On a slow store, these windows have passed by now. Then only the end is left of the quarantine.
      const { quarantineEnd: end = 0, quarantineUntil = end, id } = await trial.init(brief);
      const ends = [given.grant.until, crashed.grant.until, usedUntil];
      ensure(end >= Math.max(...ends), `a quarantine until ${Math.max(...ends)}`, end);
      equal(quarantineUntil, end, "the end of the quarantine");
      // The registry has forgotten these windows, so an operator cannot end this quarantine early.
      const { era } = await known(trial);
      await trial.registry.endQuarantine?.({ namespace: trial.namespace, era }).catch(() => undefined);
      const after = await known(trial);
      const isOver = after.quarantineUntil === undefined && (await trial.registry.ping()).clock >= end;
      if (!isOver) equal(after.quarantineUntil, end, "the quarantine after an operator ended it");
      await trial.passed(end);
      const next = await trial.claim({ workerId: 7, window: short });
      ensure(next.grant.from >= end, `a window from ${end} on`, next.grant.from);
      ensure(next.grant.fence > crashed.grant.fence, `a fence above ${crashed.grant.fence}`, next.grant.fence);
      equal(next.grant.recents, undefined, "recents of the one before");
      equal((await known(trial)).id, id, "its id");
    },
    "removals",
  ),

  checkNew(
    "a namespace is removed only in the era that the operator names",
    async (trial) => {
      const { namespace } = trial;
      await refuses("NOT_FOUND", "an unknown namespace", remove(trial, { era: "1-a" }));
      await trial.init({ ...brief, new: true });
      await trial.claim({ workerId: 7, window: short });
      const before = await known(trial);
      for (const era of ["1-a", "", `${before.era}0`]) {
        await refuses("CONFIG_INVALID", "another era", remove(trial, { era }));
      }
      equal(await known(trial), before, "what is known of it");
      await trial.renewed(await trial.claim({ workerId: 8, window: short }), { window: short });
      await remove(trial);
      await refuses("NOT_FOUND", "the same again", remove(trial, { era: before.era ?? "" }));
      await remade(trial);
      await refuses("CONFIG_INVALID", "the era before", remove(trial, { namespace, era: before.era ?? "" }));
    },
    "removals",
  ),

  checkNew(
    "a removed namespace stays noted: it is not new, unless the operator lets it be forgotten",
    async (trial) => {
      await trial.init({ ...brief, new: true });
      await trial.claim({ workerId: 7, window: short });
      await remove(trial);
      await refuses("CONFIG_INVALID", "a new namespace of its name", trial.init({ ...brief, new: true }));
      await trial.init(brief);
      await remove(trial, { forget: true });
      equal(await trial.describe(), undefined, "what is known of it");
      const { quarantineEnd, quarantineUntil } = await trial.init({ ...brief, new: true });
      equal([quarantineEnd, quarantineUntil], [undefined, undefined], "a quarantine of it");
      await trial.claim({ workerId: 7, window: short });
    },
    "removals",
  ),

  checkNew(
    "no operator ends the quarantine of a removed namespace",
    async (trial) => {
      const { registry, namespace } = trial;
      await trial.init();
      await trial.claim({ workerId: 7 });
      await remove(trial);
      await trial.init({});
      const before = await known(trial);
      ensure(before.quarantineUntil !== undefined, "a quarantine", before);
      const { era } = before;
      if (registry.endQuarantine === undefined) return;
      await refuses("CONFIG_INVALID", "its end", registry.endQuarantine({ namespace, era }));
      equal(await known(trial), before, "what is known of the namespace");
    },
    "removals",
  ),

  checkNew(
    "a claim that asks for what cannot be granted makes no removed namespace again",
    async (trial) => {
      await trial.init();
      await trial.claim({ workerId: 7 });
      await remove(trial);
      await refuses("CONFIG_INVALID", "a window of 0", trial.ask({ window: 0 }));
      await refuses("CLOCK_SKEW", "a clock an hour ahead", trial.ask({ clock: trial.now() + hour }));
      equal(await trial.describe(), undefined, "what is known of the namespace");
      await refuses("QUARANTINE", "another claim", trial.ask());
    },
    "removals",
    "creates-namespaces",
  ),

  checkNew(
    "a holder of a removed namespace is refused, and its namespace stays away",
    async (trial) => {
      await trial.init({ ...brief, new: true });
      const turn = newToken();
      const held = await trial.claim({ workerId: 7, window: short });
      const { receipt } = await trial.renewed(held, { nextTurn: turn, window: short });
      await remove(trial);
      const asked = { turn, nextTurn: newToken(), window: short, receipt };
      await refusedOrLost(trial.renew(held, asked));
      outcome(await trial.release(held, undefined, { receipt }), "lost", "a release");
      equal(await trial.describe(), undefined, "what is known of the namespace");
    },
    "removals",
  ),

  checkNew(
    "no window comes again that was granted while the namespace was removed",
    async (trial) => {
      await trial.init({ ...brief, new: true });
      const granted: Pick<Grant, "workerId" | "until">[] = [];
      /** Claims and renews a worker ID until it is refused. */
      const race = async (workerId: number): Promise<void> => {
        const held = await trial.claim({ workerId, window: brief.maxWindow, limits: brief });
        granted.push(held.grant);
        for (let lap = 0; lap < laps; lap++) {
          const renewal = await trial.renew(held, { window: brief.maxWindow });
          if (renewal.outcome === "lost") return;
          granted.push({ workerId, until: renewal.until });
        }
      };
      const runs = Array.from({ length: racers }, (_, workerId) => race(workerId));
      const [removal, ...raced] = await Promise.allSettled([remove(trial), ...runs]);
      ensure(removal.status === "fulfilled", "the removal to succeed", removal);
      for (const run of raced) {
        const isRefused = run.status === "fulfilled" || isSnowleaseError(run.reason);
        ensure(isRefused, "what came too late to be refused", run);
      }
      await remade(trial);
      for (const { workerId, until } of granted) {
        const record = await trial.registry.worker(trial.namespace, workerId);
        const { from } = record ?? (await trial.claim({ workerId, window: short, holder: on("beta") })).grant;
        ensure(from >= until, `worker ${workerId} to begin at ${until} or later`, from);
      }
    },
    "removals",
  ),

  checkNew(
    "a namespace with many worker IDs is removed as a whole",
    async (trial) => {
      const { registry, namespace } = trial;
      await trial.init({ ...brief, new: true });
      // One claim after the other: the clock of a claim that waits for others seems to be behind.
      for (let workerId = 0; workerId < many; workerId++) await trial.claim({ workerId, window: short });
      await remove(trial);
      await remade(trial);
      equal(await trial.records(), [], "its worker IDs after it was made again");
      equal(await registry.history(namespace, many - 1, { until: trial.now() + hour }), [], "their history");
      const { grant } = await trial.claim({ window: short });
      equal(grant.workerId, 0, "the first worker ID");
    },
    "removals",
  ),
];
