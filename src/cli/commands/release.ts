import { configInvalid, timeText } from "../../id/errors.ts";
import { releaseWorker } from "../../ops/workers.ts";
import type { CliCommand } from "../command.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { integerOf } from "../values.ts";

export const release: CliCommand = {
  name: "release",
  summary:
    "End the claim of a holder that is gone. The worker ID's window stays closed: nobody gets it before that has passed.",
  examples: ["snowlease release 7", "snowlease release 7 --force"],
  settings: registrySettings,
  flags: [
    {
      name: "force",
      description: "End it even while its window has not passed. The holder is told at its next renewal.",
    },
    {
      name: "reset-window",
      description:
        "Open the worker ID at once. If its holder still runs, two programs may make the same IDs. Needs --i-know.",
    },
    { name: "i-know", description: "Your word that no holder of this worker ID runs any more." },
  ],
  operands: { name: "WORKER_ID", least: 1, most: 1 },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const workerId = integerOf(operands[0], "WORKER_ID", 0, 2 ** 31 - 1);
    const resetWindow = flags.has("reset-window");
    if (resetWindow !== flags.has("i-know")) {
      throw configInvalid(
        "Expected `--reset-window` together with `--i-know`; without a holder that surely is gone, wait for the window to pass instead.",
      );
    }
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const { namespace } = config;
      const force = flags.has("force");
      const { holder, fence, until } = await releaseWorker(registry, { namespace, workerId, force, resetWindow });
      if (json) return output.json({ namespace, workerId, fence, ...holder, until });
      const { host, ip, pid } = holder;
      await output.line(
        `Worker ${workerId} of namespace ${namespace}, which ${host} (${ip}), pid ${pid} had, is nobody's now; nobody gets it before ${timeText(until)}.`,
      );
    });
  },
};
