import type { WorkerRecord, WorkerState } from "../../rule/registry.ts";
import { hasWindow } from "../../rule/window.ts";
import { timeText } from "../../id/errors.ts";
import { listWorkers } from "../../ops/workers.ts";
import { workerJson } from "../../api/codec.ts";
import type { CliCommand } from "../command.ts";
import { jsonList, longTable, mapped } from "../terminal/output.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { wordOf } from "../values.ts";

const states: readonly WorkerState[] = ["live", "resting", "free", "pinned", "foreign"];

export const workers: CliCommand = {
  name: "workers",
  summary: "List worker IDs with their present or last holder. Worker IDs that were never used are not listed.",
  details: [
    "live: held. resting: released or crashed, and its window has not passed. free: its window has passed. pinned: kept out of the pool. foreign: taken by a program that records no windows.",
  ],
  examples: ["snowlease workers", "snowlease workers --state live --json"],
  settings: registrySettings,
  flags: { "--state STATE": `Only worker IDs in this state: ${states.join(", ")}.` },

  async run(invocation) {
    const { output, json } = invocation;
    const state = wordOf(invocation, "state", states);
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const found = listWorkers(registry, config.namespace, state);
      if (json) return jsonList(output, mapped(found, workerJson));
      const heading = ["WORKER ID", "STATE", "HOST", "IP", "PID", "INSTANCE", "SINCE", "UNTIL", "FENCE"];
      if (await longTable(output, heading, mapped(found, rowOf))) return;
      await output.line(`No worker ID${state === undefined ? "" : ` is ${state}`}.`);
    });
  },
};

function rowOf({ workerId, state, holder, claimedAt, until, fence, pinned }: WorkerRecord): (string | number)[] {
  const { host = "", ip = "", pid = "", instance = "" } = holder ?? {};
  const since = claimedAt === undefined ? "" : timeText(claimedAt);
  return [
    workerId,
    pinned === undefined ? state : `${state} (${pinned})`,
    host,
    ip,
    pid,
    instance,
    since,
    hasWindow({ until }) ? timeText(until) : "-",
    fence,
  ];
}
