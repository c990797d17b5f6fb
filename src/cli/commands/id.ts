import { encodings, type EncodingName } from "../../id/encodings.ts";
import type { Lease } from "../../lease/lease.ts";
import type { Snowflake } from "../../generator/snowflake.ts";
import type { Config } from "../../config/config.ts";
import type { CliCommand } from "../command.ts";
import { opensLater, tellWait, waitRule, whileClaiming } from "../processes/hold.ts";
import { claimConfig } from "../settings.ts";
import { onInterrupt } from "../processes/signals.ts";
import { formatNames, integerOf, wordOf } from "../values.ts";

const most = 1_000_000;
/** The shortest time that a generator itself waits, ms. */
const usualWait = 4000;

export const id: CliCommand = {
  name: "id",
  summary: "Claim a worker ID, print IDs, release the worker ID.",
  details: [waitRule, "JSON is an array of strings, because an ID does not fit a JavaScript number."],
  examples: [
    "snowlease id",
    "snowlease id -n 1000 --format base62",
    "snowlease id --registry sqlite:./registry.db --json",
  ],
  settings: "cli",
  flags: {
    "-n, --count NUMBER": `How many IDs, up to ${most}; default 10.`,
    "--format FORMAT": `The encoding: ${formatNames.join(", ")}, or json; default decimal.`,
  },

  async run(invocation) {
    const { flags, output } = invocation;
    const count = integerOf(flags.get("count") ?? "10", "`--count`", 1, most);
    const format = wordOf(invocation, "format", [...formatNames, "json"]) ?? "decimal";
    const json = invocation.json || format === "json";
    const { encode } = encodings[format === "json" ? "decimal" : (format satisfies EncodingName)];

    const config = await claimConfig(invocation);
    const { generatorOn, openLease } = await import("../../snowlease.ts");
    const interrupted = onInterrupt();
    const stop = AbortSignal.any([interrupted, output.closed]);
    let ids: Snowflake | undefined;
    try {
      const lease = await whileClaiming(config, () => openLease(config, { signal: stop, argv: [], onWait: tellWait }));
      ids = await generatorOn(lease, config);
      checkOpen(lease, config);
      for (let made = 0; made < count; made++) {
        const text = encode(await ids.nextAsync({ signal: stop }));
        await output.add(json ? `${made === 0 ? "[" : ",\n "}"${text}"` : `${text}\n`);
      }
      if (json) await output.add("]\n");
      await output.flush();
    } catch (error) {
      if (error !== stop.reason) throw error;
    } finally {
      await ids?.close();
    }
    return interrupted.aborted ? (interrupted.reason as number) : 0;
  },
};

/** @throws SnowleaseError WINDOW_NOT_OPEN if the window opens later than the claim, and then the generator, may wait. */
function checkOpen(lease: Lease, config: Config): void {
  const opens = lease.snapshot?.knownFrom ?? 0;
  const wait = opens - Date.now();
  if (wait > usualWait && config.mode !== "lead") throw opensLater(lease.workerId, opens, wait, config);
}
