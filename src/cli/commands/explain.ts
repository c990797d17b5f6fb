import type { EncodingName } from "../../id/encodings.ts";
import { timeText } from "../../id/errors.ts";
import { roundedNote } from "../../ops/inspect.ts";
import { endText, explain as explainId, type Explanation, holderText } from "../../ops/explain.ts";
import { historyJson } from "../../api/codec.ts";
import type { CliCommand } from "../command.ts";
import { printable } from "../../id/printable.ts";
import { jsonList, linesOf } from "../terminal/output.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { readingFlags, readingOf } from "../values.ts";

export const explain: CliCommand = {
  name: "explain",
  summary: "Take IDs apart, and name the recorded holder of their worker ID at that time.",
  details: [
    "The registry keeps a claim for 30 days after the end of its window, and the last claim of each worker ID forever.",
  ],
  examples: [
    "snowlease explain 1278549019894743040",
    "snowlease explain --registry sqlite:/var/lib/snowlease/registry.db --json 1278549019894743040",
  ],
  settings: registrySettings,
  flags: readingFlags,
  operands: { name: "ID…", least: 1, most: Infinity },

  async run(invocation) {
    const { operands, output, json } = invocation;
    const reading = readingOf(invocation);
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const found: Explanation[] = [];
      for (const text of operands) found.push(await explainId(registry, config.namespace, text, reading));
      if (json) return jsonList(output, found.map(asJson));
      await output.line(found.map((one) => asText(one, reading.format)).join("\n\n"));
    });
  },
};

/** As the daemon's API has it. */
function asJson({ id, format, layout, parts, holders, unheld, rounded }: Explanation): object {
  const time = timeText(parts.timestamp);
  return {
    id: String(id),
    format,
    layout: layout.fingerprint,
    time,
    ...parts,
    holders: holders.map(historyJson),
    unheld,
    rounded,
  };
}

/** `named`: the encoding that the command line names. */
function asText({ id, format, parts, holders, unheld, rounded, clock }: Explanation, named?: EncodingName): string {
  const { timestamp, workerId, sequence, fields, rollback } = parts;
  const split = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
  const makers = holders.map((row) => {
    const window = `window ${timeText(row.continuedFrom ?? row.from)} to ${timeText(row.until)}`;
    const facts = `fence ${row.fence}, claimed ${timeText(row.claimedAt)}, ${window}, ${endText(row, clock)}`;
    return printable(`${holderText(row.holder)}; ${facts}`);
  });
  return linesOf(
    format === "decimal" || named !== undefined
      ? String(id)
      : `${id} (read as ${format}; --format names another encoding)`,
    `  time       ${timeText(timestamp)} (${timestamp})`,
    `  worker ID  ${workerId}${split.length > 1 ? ` (${split.join(", ")})` : ""}`,
    rollback !== undefined && `  rollback   ${rollback}`,
    `  sequence   ${sequence}`,
    rounded === true && `  beware     it ${roundedNote}`,
    `  held by    ${unheld === undefined ? makers.join("\n         or  ") : printable(`no recorded holder: ${unheld.detail}`)}`,
  );
}
