import { existsSync } from "node:fs";
import { withSource, timeText } from "../../id/errors.ts";
import { defaultLayout, Layout } from "../../id/layout.ts";
import { inspect as inspectId, roundedNote } from "../../ops/inspect.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { jsonList, table } from "../terminal/output.ts";
import { registryConfig } from "../settings.ts";
import { readingFlags, readingOf } from "../values.ts";

export const inspect: CliCommand = {
  name: "inspect",
  summary: "Take IDs apart by their layout, without a registry.",
  details: ["A time is the start of the ID's tick."],
  examples: ["snowlease inspect 1278549019894743040", "snowlease inspect --layout twitter --json 1541815603606036480"],
  settings: ["layout", "config"],
  flags: readingFlags,
  operands: { name: "ID…", least: 1, most: Infinity },

  async run(invocation) {
    const { operands, output, json } = invocation;
    const reading = readingOf(invocation);
    const layout = await layoutOf(invocation);
    const found = operands.map((text) => inspectId(text, layout, reading));
    if (json) {
      const values = found.map(({ id, format, parts, rounded }) => {
        const time = timeText(parts.timestamp);
        return { id: String(id), format, layout: layout.fingerprint, time, ...parts, rounded };
      });
      return jsonList(output, values);
    }
    const fields = Object.keys(layout.split(0));
    const own = fields.length > 1 ? fields : [];
    const counts = layout.maxRollback > 0 ? ["ROLLBACK"] : [];
    const names = own.map((name) => name.toUpperCase());
    const heading = ["ID", "TIME", "UNIX MS", "WORKER ID", ...counts, "SEQUENCE", ...names];
    const rows = found.map(({ id, parts }) => {
      const { timestamp, workerId, sequence, rollback } = parts;
      return [
        String(id),
        timeText(timestamp),
        timestamp,
        workerId,
        ...(rollback === undefined ? [] : [rollback]),
        sequence,
        ...own.map((name) => parts.fields[name] ?? 0),
      ];
    });
    await output.line(table(heading, rows));
    for (const { id, rounded } of found) if (rounded) await output.line(`${id} ${roundedNote}.`);
    if (reading.format !== undefined) return;
    for (const format of new Set(found.map((one) => one.format))) {
      if (format === "decimal") continue;
      const texts = operands.filter((_, i) => found[i]?.format === format);
      const what = texts.length === 1 ? texts[0] : `${texts[0]} and ${texts.length - 1} more`;
      await output.line(`Read as ${format}: ${what}. --format names another encoding.`);
    }
  },
};

/** The configured layout. It reads most settings of a layout here, so that a look at an ID need not load the table of options. */
async function layoutOf(invocation: Invocation): Promise<Layout> {
  const given = invocation.flags.get("layout") ?? process.env["SNOWLEASE_LAYOUT"];
  const hasFile =
    invocation.flags.has("config") || process.env["SNOWLEASE_CONFIG"] !== undefined || existsSync("snowlease.json");
  if (hasFile || process.env["SNOWLEASE_REGISTRY"] !== undefined) return (await registryConfig(invocation)).layout;
  if (given === undefined) return defaultLayout;
  return withSource(invocation.flags.has("layout") ? "--layout" : "SNOWLEASE_LAYOUT", () =>
    Layout.parse(String(given)),
  );
}
