import type { Layout } from "../../id/layout.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { counted, timeText } from "../../id/errors.ts";
import * as ops from "../../ops/audit/audit.ts";
import { holderText } from "../../ops/explain.ts";
import type { CliCommand } from "../command.ts";
import { printable } from "../../id/printable.ts";
import { sourcesOf } from "../id-files.ts";
import { linesOf } from "../terminal/output.ts";
import { Progress } from "../terminal/progress.ts";
import { registryConfig, registrySettings, storedLayout, withRegistry } from "../settings.ts";
import { formatNames, integerOf, nearFlag, timeOf, wordOf } from "../values.ts";

const defaultLimit = 100;
const mostFindings = 100_000;

export const audit: CliCommand = {
  name: "audit",
  summary:
    "Read IDs, one per line, from files or stdin. Report duplicates, and IDs outside of every recorded window. Exits with 1 when it finds any.",
  details: [
    "The command checks windows only if you name a registry. The history of a registry keeps a window for 30 days after its end.",
    "The makers of two kinds of IDs record no windows: a foreign holder, and the user of a pinned worker ID before its first claim. The command counts these IDs separately. They are no findings, but a duplicate among them is one.",
    "Memory stays below 200 MB at any number of IDs. Beyond 2 million IDs, each ID takes 12 bytes of disk in the folder that TMPDIR names.",
    "Empty lines are skipped. A line without an ID, and an ID with more bits than the layout, are findings. `-` is stdin.",
  ],
  examples: [
    "snowlease audit ids.txt",
    "psql -Atc 'SELECT id FROM orders' | snowlease audit --registry redis://localhost:6379 --namespace orders",
    "snowlease audit --format base62 --json tokens.txt more.txt",
  ],
  settings: [...registrySettings, "layout"],
  flags: {
    "--format FORMAT": `The encoding of the IDs: ${formatNames.join(", ")}; default decimal.`,
    ...nearFlag,
    "--limit NUMBER": `How many findings of each kind to print, up to ${mostFindings}; default ${defaultLimit}. All findings are counted.`,
  },
  operands: { name: "[FILE…]", least: 0, most: Infinity },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const format = wordOf(invocation, "format", formatNames) ?? "decimal";
    const limit = integerOf(flags.get("limit") ?? String(defaultLimit), "`--limit`", 0, mostFindings);
    const at = timeOf(invocation, "at");
    const config = await registryConfig(invocation);
    const { sources, size } = sourcesOf(operands.length === 0 ? ["-"] : operands);
    const progress = new Progress();

    const run = async (layout: Layout, windows?: ops.AuditOptions["windows"]): Promise<ops.Audit> => {
      let read = 0;
      try {
        return await ops.audit(sources, {
          format,
          layout,
          windows,
          at,
          limit,
          onProgress({ phase, ids, bytes }) {
            if (bytes === undefined) return progress.show(phase, `${ids} of ${read} IDs`, ids / read);
            progress.show(phase, `${ids} IDs`, size && bytes / size);
            read = ids;
          },
        });
      } finally {
        progress.end();
      }
    };
    const found =
      config.registryFrom === "named"
        ? await withRegistry(config, async (registry) => {
            const { namespace } = config;
            return run(storedLayout(await presentNamespace(registry, namespace), config), { registry, namespace });
          })
        : await run(config.layout);

    if (json) {
      const { outside = null, foreign = null, pinned = null, findings, ...rest } = found;
      await output.json({ ...rest, outside, foreign, pinned, findings: findings.map(asJson) });
    } else {
      const lines = [...found.findings.map(asText), ...found.notes.slice(0, limit).map(noteText)];
      for (const line of lines) await output.add(`${printable(line)}\n`);
      await output.line(summaryOf(found, limit));
    }
    return totalOf(found) === 0 ? 0 : 1;
  },
};

function asJson(finding: ops.AuditFinding): object {
  return finding.kind === "invalid" ? finding : { ...finding, id: String(finding.id) };
}

function asText(finding: ops.AuditFinding): string {
  const where = finding.places.map(({ source, line }) => `${source}:${line}`).join(", ");
  switch (finding.kind) {
    case "invalid":
      return `${where}: no ID: ${finding.why}`;
    case "beyond":
      return `${where}: ${finding.id} has more bits than the layout`;
    case "duplicate": {
      const more = finding.times > finding.places.length ? ", …" : "";
      return `${finding.id}: ${finding.times} times: ${where}${more}`;
    }
    case "outside": {
      const { id, workerId, timestamp } = finding;
      return `${id}: no recorded holder of worker ${workerId} at ${timeText(timestamp)}: ${where}`;
    }
  }
}

function noteText({ kind, workerId, ids, by, reason }: ops.UnleasedIds): string {
  const those = `Worker ${workerId}: ${counted(ids, "ID")} outside of every window`;
  if (kind === "pinned") return `${those}, older than its first claim: it is pinned (${reason}).`;
  return `${those}: ${by === undefined ? "a foreign holder" : holderText(by)} holds it and records no windows.`;
}

function totalOf({ duplicates, outside = 0, beyond, invalid }: ops.Audit): number {
  return duplicates + outside + beyond + invalid;
}

function summaryOf(found: ops.Audit, limit: number): string {
  const { ids, duplicates, outside, foreign = 0, pinned = 0, beyond, invalid, findings, notes } = found;
  const total = totalOf(found);
  const unleased = [
    foreign > 0 ? `${foreign} made by foreign holders, which record no windows` : [],
    pinned > 0 ? `${pinned} of pinned worker IDs, older than their first claim` : [],
  ].flat();
  return linesOf(
    findings.length < total && `Shown: ${findings.length} of ${total} findings; --limit shows more.`,
    limit < notes.length && `Shown: ${limit} of ${notes.length} worker IDs without a lease; --limit shows more.`,
    `${counted(ids, "ID")}. More than once: ${duplicates}. Outside of every recorded window: ${outside ?? "not checked"}. ` +
      `Beyond the layout: ${beyond}. Lines without an ID: ${invalid}.`,
    unleased.length > 0 && `Not counted as outside: ${unleased.join("; ")}.`,
    outside === undefined && "Without a registry, only duplicates are found; name one with --registry.",
  );
}
