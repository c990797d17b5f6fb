import { fstatSync } from "node:fs";
import { configInvalid } from "../../id/errors.ts";
import type { CliCommand } from "../command.ts";
import { holdLease, waitRule } from "../processes/hold.ts";
import { claimConfig } from "../settings.ts";
import { beforeAbort, onInterrupt } from "../processes/signals.ts";

export const assign: CliCommand = {
  name: "assign",
  summary:
    "Claim a worker ID, print it as one line of JSON, and hold it until stdin closes or SIGINT, SIGTERM or SIGHUP arrives.",
  details: [
    "Use the worker ID only while this process lives. The process keeps the window open beyond the printed `until`. It exits with 4 when the lease is lost or about to end. Then stop using the worker ID.",
    waitRule,
    "A stdin that is /dev/null, as in a service, does not count as closed.",
  ],
  examples: ["snowlease assign", "snowlease assign --registry http://127.0.0.1:7070 --once"],
  settings: "cli",
  without: ["onLost", "maxTell", "mode", "spread"],
  flags: { "--once": "Claims, prints and releases at once. Do not make IDs with this worker ID." },

  async run(invocation) {
    const { flags, output } = invocation;
    const config = await claimConfig(invocation);
    if (config.registryFrom === "borrowed") {
      throw configInvalid(
        "`snowlease exec` started this process and holds its worker ID (SNOWLEASE_WORKER_ID); to claim another one, name another namespace, or a registry with `--registry`.",
      );
    }
    const stop = onInterrupt();
    try {
      const held = await holdLease(config, stop);
      const { lease } = held;
      const { workerId, fence, from, until, namespace, layout } = lease;
      try {
        const fields = layout.split(workerId);
        await output.json({ workerId, fence, from, until, namespace, layout: layout.fingerprint, fields });
        await output.end();
        // The reader went away before it got the worker ID.
        if (output.closed.aborted) return await held.giveBack("unused");
        if (flags.has("once")) {
          process.stderr.write(`snowlease: Released worker ${workerId}; do not make IDs with it.\n`);
          return;
        }
        const error = await Promise.race([beforeAbort(held.endangered(stop), stop), stdinClosed()]);
        if (error === undefined) return;
        // Exit without another call to the registry. The user of the worker ID learns of the danger when this process ends.
        await lease.orphan();
        throw error;
      } finally {
        await held.giveBack("used");
      }
    } catch (error) {
      if (error !== stop.reason) throw error;
    }
  },
};

/** Resolves when the parent process closes stdin. Never resolves for /dev/null, which a service has. */
async function stdinClosed(): Promise<void> {
  if (fstatSync(0).isCharacterDevice() && !process.stdin.isTTY) return new Promise(() => undefined);
  await new Promise((resolve) => {
    for (const event of ["end", "close", "error"]) process.stdin.once(event, resolve);
    process.stdin.resume();
  });
}
