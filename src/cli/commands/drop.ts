import { timeText } from "../../id/errors.ts";
import { isTrialName } from "../../rule/drop.ts";
import { dropNamespace } from "../../ops/drop.ts";
import type { CliCommand } from "../command.ts";
import { addressOf, registryConfig, registrySettings, withRegistry } from "../settings.ts";

export const drop: CliCommand = {
  name: "drop",
  summary: "Drop namespaces that no process uses any more, with their records, pins and history.",
  details: [
    "Refused while a window has not passed (a holder that lives, or one that died a moment ago), while a worker ID is pinned, and in a quarantine. Stop each process that uses the namespace first: a process that claims in it later makes it again.",
    "A note stays under the name, so that no ID comes twice. A namespace that is made there again begins in quarantine, some minutes long, and must have the same layout. Of a namespace that `snowlease prove` left, nothing stays.",
  ],
  examples: ["snowlease drop staging", "snowlease drop old_orders older_orders --json"],
  settings: registrySettings.filter((name) => name !== "namespace"),
  operands: { name: "NAMESPACE…", least: 1, most: Infinity },

  async run(invocation) {
    const { operands, output, json } = invocation;
    const config = await registryConfig(invocation);
    const { redacted } = addressOf(config);
    await withRegistry(config, async (registry) => {
      for (const namespace of operands) {
        const { grantsFrom } = await dropNamespace(registry, namespace, redacted);
        if (json) await output.json({ namespace, grantsFrom });
        else if (isTrialName(namespace)) await output.line(`Dropped the trial's namespace ${namespace}.`);
        else {
          const from =
            grantsFrom === undefined ? "" : ` A namespace of this name grants nothing before ${timeText(grantsFrom)}.`;
          await output.line(`Dropped namespace ${namespace}.${from}`);
        }
      }
    });
  },
};
