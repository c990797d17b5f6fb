import { timeText } from "../core/window.ts";
import { explain as explainId, type Explanation } from "../ops/explain.ts";
import { historyJson } from "../registries/daemon/codec.ts";
import type { Command } from "./command.ts";
import { jsonList, printable } from "./output.ts";
import { registryConfig, registrySettings, withRegistry } from "./settings.ts";
import { formatNames, inputFormat, nearFlag, timeOf, wordOf } from "./values.ts";

export const explain: Command = {
  name: "explain",
  summary: "Take IDs apart, and say who held their worker ID at that time, or that nobody did.",
  examples: [
    "snowlease explain 1278549019894743040",
    "snowlease explain --registry sqlite:./registry.db --json 1278549019894743040",
  ],
  settings: registrySettings,
  flags: [inputFormat, nearFlag],
  operands: { name: "ID…", least: 1, most: Infinity },

  async run(invocation) {
    const { operands, output, json } = invocation;
    const reading = { format: wordOf(invocation, "format", formatNames), at: timeOf(invocation, "at") };
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const found: Explanation[] = [];
      for (const text of operands) found.push(await explainId(registry, config.namespace, text, reading));
      if (json) return jsonList(output, found.map(asJson));
      await output.line(found.map(asText).join("\n\n"));
    });
  },
};

/** As the daemon's API has it. */
function asJson({ id, layout, parts, holders }: Explanation): object {
  const time = timeText(parts.timestamp);
  return { id: String(id), layout: layout.fingerprint, time, ...parts, holders: holders.map(historyJson) };
}

function asText({ id, parts, holders }: Explanation): string {
  const { timestamp, workerId, sequence, fields, rollback } = parts;
  const split = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  const makers = holders.map(({ holder, fence, from, continuedFrom, until, claimedAt, end = "live" }) => {
    const { host, ip, pid, instance } = holder;
    const who = `${host} (${ip}), pid ${pid}${instance === "" ? "" : `, ${instance}`}`;
    return printable(
      `${who}; fence ${fence}, claimed ${timeText(claimedAt)}, window ${timeText(continuedFrom ?? from)} to ${timeText(until)}, ${end}`,
    );
  });
  const nobody = `nobody: no claim of worker ${workerId} that is on record has a window with this time`;
  return [
    String(id),
    `  time       ${timeText(timestamp)} (${timestamp})`,
    `  worker ID  ${workerId}${split.length > 1 ? ` (${split.join(", ")})` : ""}`,
    ...(rollback === undefined ? [] : [`  rollback   ${rollback}`]),
    `  sequence   ${sequence}`,
    `  held by    ${makers.length === 0 ? nobody : makers.join("\n         or  ")}`,
  ].join("\n");
}
