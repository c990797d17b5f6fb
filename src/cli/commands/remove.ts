import { configInvalid } from "../../id/errors.ts";
import { removeNamespace } from "../../ops/remove.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { addressOf, namedRegistryConfig, namedRegistryRule, registrySettings, withRegistry } from "../settings.ts";

export const remove: CliCommand = {
  name: "remove",
  summary: "Remove a namespace that no process uses, with its worker IDs, pins and history.",
  details: [
    namedRegistryRule,
    "The command refuses a namespace with an open window, even if the claim of that window has ended. It also refuses a namespace in which a program without windows (westid) has a worker ID. --era is the era that `snowlease quarantine` shows, so that the command is refused if you repeat it by mistake.",
    "A note of the name stays in the registry. A new namespace of this name begins in quarantine, after each window of the removed one, so that no ID comes twice. --forget leaves no note. With it you confirm that a namespace of this name is never made again for the same IDs.",
    "After an interrupted removal, the namespace grants nothing. Remove it again, with the era that `snowlease quarantine` then shows.",
  ],
  examples: [
    "snowlease quarantine --registry postgres://db1/app --namespace trial",
    "snowlease remove --registry postgres://db1/app --namespace trial --era 1795433524000-5f0c2a91 --i-know",
  ],
  settings: registrySettings,
  flags: {
    "--era ERA": "The present era of the namespace, as `snowlease quarantine` shows it.",
    "--forget": "Confirms that a namespace of this name is never made again. No note stays.",
    "--i-know": "Confirms that no process uses the namespace.",
  },

  async run(invocation) {
    const { flags, output, json } = invocation;
    const config = await namedRegistryConfig(invocation);
    const { namespace } = config;
    const where = addressOf(config).redacted;
    const era = confirmedEra(invocation, namespace, where);
    const forget = flags.has("forget");
    await withRegistry(config, (registry) => removeNamespace(registry, { namespace, era, forget }, where));
    if (json) return output.json({ namespace, era, forget });
    const after = forget
      ? "No note of its name is left."
      : "A note of its name is left: a namespace that is made again begins in quarantine.";
    return output.line(`Namespace \`${namespace}\` is removed from ${where}. ${after}`);
  },
};

/** @throws SnowleaseError CONFIG_INVALID without the operator's word. */
function confirmedEra({ flags }: Invocation, namespace: string, where: string): string {
  const era = flags.get("era");
  if (typeof era !== "string") {
    throw configInvalid(
      "Expected `--era ERA`, got nothing; look at the namespace with `snowlease quarantine` first, which shows it.",
    );
  }
  if (flags.has("i-know")) return era;
  throw configInvalid(
    `Expected \`--i-know\`, got nothing. It is your word that no process uses namespace \`${namespace}\` of ${where}. Its worker IDs, pins and history are deleted. Check that address, stop what uses the namespace, then repeat with \`--i-know\`.`,
  );
}
