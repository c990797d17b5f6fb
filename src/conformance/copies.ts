import { assumedLimits, type NamespaceInfo, type NamespaceLimits } from "../rule/limits.ts";
import { between, ensure, equal, refuses } from "./assert.ts";
import { checkNew, type ConformanceCheck } from "./check.ts";
import { contentOf, edited, known, receiptOf } from "./receipts.ts";
import { hour, long, newToken, on, short, type Trial } from "./trial.ts";

/** Limits whose quarantine a check waits for, ms. */
const brief: NamespaceLimits = { maxWindow: 100, maxClockSkew: 700 };
/** Limits whose quarantine no check waits for, ms. */
const endless: NamespaceLimits = { maxWindow: assumedLimits.maxWindow, maxClockSkew: 800 };

/** An operator separates the namespace from its original. */
async function separate(trial: Trial, era: string): Promise<NamespaceInfo> {
  const { registry, namespace } = trial;
  ensure(registry.separate !== undefined, "a registry that can separate copies to have `separate`", registry.kind);
  return registry.separate({ namespace, era });
}

const numberOf = (era = ""): number => Number.parseInt(era, 10);

/** A copy of a store that is used for another purpose than its original. */
export const copies: readonly ConformanceCheck[] = [
  checkNew(
    "a copy that is separated has another id and receipt key, is in quarantine, and keeps its records",
    async (trial) => {
      await trial.init({ ...endless, new: true });
      const neighbour = await trial.otherNamespace();
      const { registry, namespace } = trial;
      const keyOf = (name: string) => registry.receiptKey?.(name);
      const fixedOf = async (name: string) => [await registry.describe(name), await keyOf(name)];
      const held = await trial.claim({ workerId: 7, window: short });
      const turn = newToken();
      await trial.renewed(held, { nextTurn: turn, window: short });
      // The state of a worker ID changes by itself. So does how programs without windows see the worker ID.
      const stored = async () => (await trial.records()).map(({ state: _, marked: __, ...record }) => record);
      const [records, before, key, neighbours] = [
        await stored(),
        await known(trial),
        await keyOf(namespace),
        await fixedOf(neighbour),
      ];
      for (const wrong of ["1-a", "", `${before.era}0`]) {
        await refuses("CONFIG_INVALID", "a copy in another era", separate(trial, wrong));
      }
      equal([await known(trial), await keyOf(namespace)], [before, key], "what is known of the namespace");

      const { clock } = await registry.ping();
      const info = await separate(trial, before.era);
      const { id, era, quarantineEnd, quarantineUntil, ...fixed } = info;
      const { id: earlier, era: earlierEra, ...same } = before;
      ensure(/^[\da-f]{32}$/.test(id ?? "") && id !== earlier, "another id", { id, earlier });
      ensure(numberOf(era) > numberOf(earlierEra), "a later era", { era, earlierEra });
      equal(fixed, same, "layout and limits");
      const length = endless.maxWindow + 2 * endless.maxClockSkew;
      between(quarantineEnd, clock + length, clock + length + long, "the end of the quarantine");
      equal([quarantineUntil, await known(trial)], [quarantineEnd, info], "what is known after it");
      const next = await keyOf(namespace);
      if (key !== undefined) ensure(/^[\da-f]{64}$/.test(next ?? "") && next !== key, "another receipt key", "a key");
      equal(await stored(), records, "the records");
      equal(await fixedOf(neighbour), neighbours, "what is known of another namespace");
      await refuses("CONFIG_INVALID", "the same request again", separate(trial, before.era));
      await refuses("QUARANTINE", "a claim", trial.ask({ window: short, holder: on("beta") }));
      await refuses("QUARANTINE", "a renewal", trial.renew(held, { turn, nextTurn: newToken(), window: short }));
      equal([await known(trial), await keyOf(namespace)], [info, next], "what is known after these");
    },
    "plain-receipts",
    "copies",
  ),

  checkNew(
    "a quarantine of a copy ends no earlier where the copy is separated",
    async (trial) => {
      await trial.init({ ...endless, new: true });
      const held = await trial.claim({ workerId: 7, window: short });
      const end = held.grant.until + hour;
      const receipt = edited(receiptOf(held), { renewals: 1, until: end });
      await refuses("QUARANTINE", "a renewal with evidence", trial.renew(held, { receipt, window: short }));
      const info = await separate(trial, (await known(trial)).era);
      between(info.quarantineUntil, end, end + long, "when grants go on");
    },
    "plain-receipts",
    "copies",
  ),

  checkNew(
    "a holder of a store that is separated by mistake renews after the quarantine; later receipts of the original begin another one",
    async (trial) => {
      await trial.init({ ...brief, new: true });
      const held = await trial.claim({ workerId: 7, window: short });
      const { receipt: text = "" } = await trial.renewed(held, { nextTurn: newToken(), window: short });
      const info = await separate(trial, (await known(trial)).era);
      const ask = (receipt: string) => trial.renew(held, { receipt, nextTurn: newToken(), window: short });
      await refuses("QUARANTINE", "a renewal with a receipt of the earlier id", ask(text));
      equal(await known(trial), info, "what is known after it");
      await trial.passed(info.quarantineUntil ?? 0);
      const renewal = await trial.renewed(held, { receipt: text, nextTurn: newToken(), window: short });
      equal(renewal.from, info.quarantineEnd, "`from` of the renewal");
      const { namespaceId, era, renewals } = contentOf(renewal.receipt);
      equal([namespaceId, era, renewals], [info.id, info.era, 2], "id, era and renewals of its receipt");
      // The original goes on, and grants at the same time as this store.
      const elsewhere = edited(text, { until: renewal.until + long });
      await refuses("QUARANTINE", "a renewal with a later receipt of the earlier id", ask(elsewhere));
      const { era: last } = await known(trial);
      ensure(numberOf(last) > numberOf(info.era), "a later era", last);
    },
    "plain-receipts",
    "copies",
  ),

  checkNew(
    "to separate an unknown namespace is NOT_FOUND",
    async (trial) => {
      await refuses("NOT_FOUND", "the request", separate(trial, "1-a"));
    },
    "plain-receipts",
    "copies",
  ),
];
