import { configInvalid } from "../../id/errors.ts";
import { pinWorkers } from "../../ops/workers.ts";
import type { CliCommand } from "../command.ts";
import { namedRegistryConfig, namedRegistryRule, registrySettings, withRegistry } from "../settings.ts";
import { workerIdsOf } from "../values.ts";

export const pin: CliCommand = {
  name: "pin",
  summary: "Keep worker IDs out of the pool. Their present holders continue. A repeated pin replaces the reason.",
  details: [namedRegistryRule],
  examples: [
    'snowlease pin 7 --registry redis://localhost:6379 --reason "taken by the old billing host"',
    "snowlease pin 7 8 9 --registry redis://localhost:6379 --reason reserved --json",
  ],
  settings: registrySettings,
  flags: { "--reason TEXT": "The reason, for other operators; up to 200 characters. Required." },
  operands: { name: "WORKER_ID…", least: 1, most: Infinity },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const workerIds = workerIdsOf(operands);
    const reason = flags.get("reason");
    if (typeof reason !== "string") {
      throw configInvalid("Expected `--reason TEXT`, got nothing; give the reason.");
    }
    const config = await namedRegistryConfig(invocation);
    const { namespace } = config;
    await withRegistry(config, (registry) => pinWorkers(registry, namespace, workerIds, reason));
    if (json) return output.json({ namespace, workerIds, reason });
    await output.line(`Pinned in namespace ${namespace}: ${workerIds.join(", ")}.`);
  },
};
