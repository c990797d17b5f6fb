import { configInvalid, timeText } from "../../id/errors.ts";
import { quarantineReport } from "../../ops/quarantine.ts";
import { separateCopy } from "../../ops/separate.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { addressOf, namedRegistryConfig, namedRegistryRule, registrySettings, withRegistry } from "../settings.ts";
import { table } from "../terminal/output.ts";

export const separate: CliCommand = {
  name: "separate",
  summary: "Give a copy of a registry its own id, if the copy serves another purpose than the original.",
  details: [
    namedRegistryRule,
    "A copy of a registry has the id and the receipt key of its original. An example is a staging database that was copied from production. A client takes the daemons of both for one registry, and a receipt of one registry is valid in the other. `separate` gives a namespace of the copy its own id and its own receipt key. Its records, pins and history stay.",
    "Run it at the copy, once for each namespace, before a process uses the copy. The command refuses a store with an open window. An original in use always has one, and a fresh copy has one until the last of these windows has passed. --era is the era that `snowlease quarantine` shows at the copy, so that the command is refused if you repeat it by mistake.",
    "Then the copy grants nothing until each window has passed that its original may have granted in the meantime. With the default limits this takes 2 min 20 s, and on Redis 2 min 32 s. `quarantine end` ends this wait earlier.",
    "If you run it at the original by mistake, it costs time, but causes no duplicate ID. A holder waits for the end of the quarantine, and renews then. If the daemon was restarted meanwhile, or another process was faster, the holder claims another worker ID. A holder that may not switch ends.",
  ],
  examples: [
    "snowlease quarantine --registry postgres://staging/app --namespace orders",
    "snowlease separate --registry postgres://staging/app --namespace orders --era 1795433524000-5f0c2a91 --i-know",
  ],
  settings: registrySettings,
  flags: {
    "--era ERA": "The present era of the copy, as `snowlease quarantine` shows it.",
    "--i-know":
      "Confirms that this registry is a copy for another purpose than its original, and that no process uses it.",
  },

  async run(invocation) {
    const { output, json } = invocation;
    const config = await namedRegistryConfig(invocation);
    const { namespace } = config;
    const where = addressOf(config).redacted;
    const era = confirmedEra(invocation, namespace, where);
    await withRegistry(config, async (registry) => {
      const { originalId, info } = await separateCopy(registry, { namespace, era }, where);
      const report = { ...(await quarantineReport(registry, namespace, Date.now)), originalId };
      if (json)
        return output.json({ ...report, remainingMs: Math.max(0, (report.quarantineUntil ?? 0) - report.clock) });
      const opens = timeText(info.quarantineUntil ?? report.clock);
      const facts = table(
        ["NAMESPACE", namespace],
        [
          ["ID", info.id ?? "none"],
          ["ORIGINAL ID", originalId ?? "none"],
          ["ERA", info.era ?? "none"],
          ["GRANTS AGAIN AT", opens],
        ],
      );
      await output.line(`${facts}\n\n${nextSteps(where, originalId ?? "", opens)}`);
    });
  },
};

/** @throws SnowleaseError CONFIG_INVALID without the operator's word. */
function confirmedEra({ flags }: Invocation, namespace: string, where: string): string {
  const era = flags.get("era");
  if (typeof era !== "string") {
    throw configInvalid(
      "Expected `--era ERA`, got nothing; look at the copy with `snowlease quarantine` first, which shows it.",
    );
  }
  if (!flags.has("i-know")) {
    throw configInvalid(
      `Expected \`--i-know\`, got nothing. It is your word that namespace \`${namespace}\` of ${where} is a copy for another use than its original, and that no process uses it, daemons included. Check that address, stop what uses the copy, then repeat with \`--i-know\`.`,
    );
  }
  return era;
}

function nextSteps(where: string, originalId: string, opens: string): string {
  return [
    `${where} is separated from its original: each of them now finds out a holder of the other one that asks it by mistake.`,
    "",
    "Next:",
    `- Start what uses the copy. Nothing is granted until ${opens}; \`snowlease quarantine\` shows the command that ends that earlier.`,
    "- If daemons have a file of receipt keys, give those of the copy another file than those of the original.",
    `- Look at the original with \`snowlease quarantine\`: it still has the id ${originalId}. If it has the new one, this was the original: leave it as it is; its holders renew or claim anew after the quarantine.`,
  ].join("\n");
}
