import { unpinWorkers } from "../../ops/workers.ts";
import type { CliCommand } from "../command.ts";
import { namedRegistryConfig, namedRegistryRule, registrySettings, withRegistry } from "../settings.ts";
import { workerIdsOf } from "../values.ts";

export const unpin: CliCommand = {
  name: "unpin",
  summary: "Put pinned worker IDs back into the pool. Their windows stay as they were.",
  details: [namedRegistryRule],
  examples: [
    "snowlease unpin 7 --registry redis://localhost:6379",
    "snowlease unpin 7 8 9 --registry redis://localhost:6379 --json",
  ],
  settings: registrySettings,
  operands: { name: "WORKER_ID…", least: 1, most: Infinity },

  async run(invocation) {
    const { operands, output, json } = invocation;
    const workerIds = workerIdsOf(operands);
    const config = await namedRegistryConfig(invocation);
    const { namespace } = config;
    await withRegistry(config, (registry) => unpinWorkers(registry, namespace, workerIds));
    if (json) return output.json({ namespace, workerIds });
    await output.line(`Unpinned in namespace ${namespace}: ${workerIds.join(", ")}.`);
  },
};
