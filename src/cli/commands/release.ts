import { configInvalid, timeText } from "../../id/errors.ts";
import { releaseWorker } from "../../ops/workers.ts";
import type { CliCommand } from "../command.ts";
import { namedRegistryConfig, namedRegistryRule, registrySettings, withRegistry } from "../settings.ts";
import { integerOf } from "../values.ts";

export const release: CliCommand = {
  name: "release",
  summary: "End the claim of a dead holder. The worker ID stays reserved until its window has passed.",
  details: [namedRegistryRule],
  examples: [
    "snowlease release 7 --registry redis://localhost:6379",
    "snowlease release 7 --registry redis://localhost:6379 --force",
  ],
  settings: registrySettings,
  flags: {
    "--force": "Also end a claim whose window has not passed. Its holder learns of that at its next renewal.",
    "--reset-window":
      "Free the worker ID at once. If its holder still runs, two programs may make the same IDs. Needs --i-know.",
    "--i-know": "Confirms that no holder of this worker ID runs any more.",
  },
  operands: { name: "WORKER_ID", least: 1, most: 1 },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const workerId = integerOf(operands[0], "WORKER_ID", 0, 2 ** 31 - 1);
    const resetWindow = flags.has("reset-window");
    if (resetWindow !== flags.has("i-know")) {
      throw configInvalid(
        "Expected `--reset-window` and `--i-know` together; where a holder may still run, wait until the window has passed instead.",
      );
    }
    const config = await namedRegistryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const { namespace } = config;
      const force = flags.has("force");
      const { holder, fence, until } = await releaseWorker(registry, { namespace, workerId, force, resetWindow });
      if (json) return output.json({ namespace, workerId, fence, ...holder, until });
      const { host, ip, pid } = holder;
      await output.line(
        `Released worker ${workerId} of namespace ${namespace} (last holder: ${host}, ${ip}, pid ${pid}). Reserved until ${timeText(until)}.`,
      );
    });
  },
};
