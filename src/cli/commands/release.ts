import { configInvalid, timeText } from "../../id/errors.ts";
import { releaseWorker } from "../../ops/workers.ts";
import type { CliCommand } from "../command.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { integerOf } from "../values.ts";

export const release: CliCommand = {
  name: "release",
  summary: "End the claim of a dead holder. The worker ID stays reserved until its window has passed.",
  examples: ["snowlease release 7", "snowlease release 7 --force"],
  settings: registrySettings,
  flags: {
    "--force": "Also end a claim whose window has not passed. Its holder learns of that at its next renewal.",
    "--fence NUMBER": "Only end the claim with this fence, and none that came later.",
    "--reset-window":
      "Free the worker ID at once. If its holder still runs, two programs may make the same IDs. Requires --i-know.",
    "--i-know": "Confirms that no holder of this worker ID runs any more.",
  },
  operands: { name: "WORKER_ID", least: 1, most: 1 },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const workerId = integerOf(operands[0], "WORKER_ID", 0, 2 ** 31 - 1);
    const asked = flags.has("fence")
      ? integerOf(flags.get("fence"), "`--fence`", 1, Number.MAX_SAFE_INTEGER)
      : undefined;
    const resetWindow = flags.has("reset-window");
    if (resetWindow !== flags.has("i-know")) {
      throw configInvalid(
        "Expected `--reset-window` and `--i-know` together; where a holder may still run, wait until the window has passed instead.",
      );
    }
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const { namespace } = config;
      const force = flags.has("force");
      const request = { namespace, workerId, force, resetWindow, fence: asked };
      const { holder, fence, until } = await releaseWorker(registry, request);
      if (json) return output.json({ namespace, workerId, fence, ...holder, until });
      const { host, ip, pid } = holder;
      await output.line(
        `Released worker ${workerId} of namespace ${namespace} (last holder: ${host}, ${ip}, pid ${pid}). Reserved until ${timeText(until)}.`,
      );
    });
  },
};
