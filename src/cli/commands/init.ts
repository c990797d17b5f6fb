import { storeOf } from "../../registries/index.ts";
import { timeText } from "../../id/errors.ts";
import { scopeText } from "../../rule/scope.ts";
import { assumedLimits } from "../../rule/limits.ts";
import type { CliCommand } from "../command.ts";
import { addressOf, namedRegistryConfig, namedRegistryRule, openConfigured, registryConfig } from "../settings.ts";

export const init: CliCommand = {
  name: "init",
  summary: "Create a namespace in a registry, or check that an existing one has these options.",
  details: [
    namedRegistryRule,
    "Fixes the namespace's layout, its longest window and its tolerated clock difference. Repeated with the same options, it changes nothing. Optional for sqlite, where the first claim does the same. In an SQL database it makes or upgrades the tables. Without the permission for that, have an administrator run the statements of --print, then run init.",
    "A Redis cannot tell a namespace that it forgot from one that never existed. Without --new, init makes the namespace in quarantine: it grants nothing until every window that it may have forgotten has passed (10 min 32 s). --new confirms that the namespace never existed; it is refused where data of the namespace exists, or a quarantine of it is recorded. A registry of another kind makes the namespace at once in any case, and refuses --new where a worker ID of it was used. Until the first claim, init --new may be repeated; after that, use init without --new.",
    "Refused where a namespace of this name is in another schema or database of the same server, as far as the login sees it: a URL without a schema leads each user of PostgreSQL or Oracle to one of its own. Name the schema in the URL, or say --separate.",
  ],
  examples: [
    "snowlease init --registry sqlite:/var/lib/snowlease/registry.db --namespace orders --layout twitter",
    "snowlease init --registry redis://127.0.0.1:6379 --namespace orders --new",
    "snowlease init --registry oracle://ids:PASSWORD@db:1521/ids --namespace orders --print",
  ],
  settings: ["registry", "namespace", "layout", "maxWindow", "maxClockSkew", "operationTimeout", "token", "config"],
  flags: {
    "--new": "Confirms that this namespace never existed; refused where data of it exists.",
    "--separate": "Confirms that its IDs never meet those of a namespace of this name in another schema or database.",
    "--print": "Print the statements that set up the store, and change nothing.",
  },

  async run(invocation) {
    const { flags, output, json } = invocation;
    const prints = flags.has("print");
    const config = await (prints ? registryConfig(invocation) : namedRegistryConfig(invocation));
    const address = addressOf(config);
    if (prints) {
      const ddl = (await storeOf(address).schema?.(address, config.namespace)) ?? "";
      if (json) await output.json({ registry: address.redacted, ddl });
      else await output.line(ddl === "" ? `-- ${address.redacted} needs no statements.` : ddl);
      return;
    }
    const registry = await openConfigured(config);
    try {
      const { namespace, layout, limits } = config;
      const words = { new: flags.has("new"), separate: flags.has("separate") };
      const info = await registry.init({ namespace, layout: layout.fingerprint, ...limits, ...words });
      const scope = await registry.scope?.(namespace);
      if (json) return await output.json({ namespace, registry: address.redacted, ...info, scope });
      const { quarantineUntil: until } = info;
      const state = until === undefined ? "is ready" : `is in quarantine until ${timeText(until)}`;
      await output.line(
        `Namespace ${namespace} ${state} in ${address.redacted}: layout ${info.layout}, windows up to ${info.maxWindow} ms, clocks within ${info.maxClockSkew} ms.`,
      );
      if (scope !== undefined) await output.line(scopeText(scope));
      if (info.maxWindow > assumedLimits.maxWindow) {
        const wait = info.maxWindow + 2 * info.maxClockSkew;
        await output.line(
          `A registry that loses the record of this namespace cannot know that it has windows of more than ${assumedLimits.maxWindow} ms. After such a loss, stop all holders, and let none begin for ${wait} ms.`,
        );
      }
      if (until === undefined) return;
      await output.line("Until then it grants nothing: this registry may have forgotten windows. Claims wait or fail.");
    } finally {
      await registry.close().catch(() => undefined);
    }
  },
};
