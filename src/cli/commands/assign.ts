import { fstatSync } from "node:fs";
import { configInvalid } from "../../id/errors.ts";
import type { CliCommand } from "../command.ts";
import { holdLease } from "../processes/hold.ts";
import { claimConfig, deferConfigured } from "../settings.ts";
import { aborted, onInterrupt } from "../processes/signals.ts";

export const assign: CliCommand = {
  name: "assign",
  summary:
    "Claim a worker ID, print it as a line of JSON, and hold it until stdin closes, or SIGINT, SIGTERM or SIGHUP comes.",
  details: [
    "The worker ID may be used as long as this process lives: it keeps the window open beyond the `until` that it printed. It exits " +
      "with 4 when the lease is lost, or about to be: stop using the worker ID then.",
    "A stdin that is /dev/null, as a service has it, does not count as closed.",
  ],
  examples: ["snowlease assign", "snowlease assign --registry http://127.0.0.1:7070 --once"],
  settings: "cli",
  without: ["onLost", "maxTell", "mode", "spread"],
  flags: [{ name: "once", description: "Give it back at once: the number tells something, but is nobody's any more." }],

  async run(invocation) {
    const { flags, output } = invocation;
    const config = await claimConfig(invocation);
    if (config.registryFrom === "borrowed") {
      throw configInvalid(
        "Here `snowlease exec` has a worker ID for all that it runs: it stands in SNOWLEASE_WORKER_ID; name another namespace, or a registry by `--registry`, to claim one for a program of your own.",
      );
    }
    const stop = onInterrupt();
    const registry = await deferConfigured(config);
    try {
      const held = await holdLease(config, registry, stop);
      const { lease } = held;
      const { workerId, fence, from, until, namespace, layout } = lease;
      try {
        const fields = layout.split(workerId);
        await output.json({ workerId, fence, from, until, namespace, layout: layout.fingerprint, fields });
        await output.end();
        // Its reader was gone before.
        if (output.closed.aborted) return await held.giveBack("untold");
        if (flags.has("once")) {
          process.stderr.write(
            `snowlease: worker ${workerId} is given back: it is nobody's now, so do not make IDs with it.\n`,
          );
          return;
        }
        const error = await Promise.race([held.endangered(stop), aborted(stop), stdinClosed()]);
        if (error === undefined) return;
        // Whoever uses the worker ID learns of the danger by our end: no word with the registry before that.
        await lease.orphan();
        throw error;
      } finally {
        await held.giveBack("told");
      }
    } catch (error) {
      if (error !== stop.reason) throw error;
    } finally {
      await registry.close().catch(() => undefined);
    }
  },
};

/** Resolves when whoever started us closes our stdin; never when there is nobody: then it is /dev/null. */
async function stdinClosed(): Promise<void> {
  if (fstatSync(0).isCharacterDevice() && !process.stdin.isTTY) return new Promise(() => undefined);
  await new Promise((resolve) => {
    for (const event of ["end", "close", "error"]) process.stdin.once(event, resolve);
    process.stdin.resume();
  });
}
