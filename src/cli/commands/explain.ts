import type { EncodingName } from "../../id/encodings.ts";
import { configInvalid, shown, timeText } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import type { Registry } from "../../rule/registry.ts";
import { textLines } from "../../ops/audit/id-lines.ts";
import { inspect, type Reading, roundedNote } from "../../ops/inspect.ts";
import { endText, explain as explainId, type Explanation, holderText } from "../../ops/explain.ts";
import { historyJson } from "../../api/codec.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { printable } from "../../id/printable.ts";
import { sourcesOf } from "../id-files.ts";
import { jsonList, linesOf } from "../terminal/output.ts";
import { Progress } from "../terminal/progress.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { readingFlags, readingOf } from "../values.ts";

/** Most IDs in a file. Each ID takes several questions to the registry: millions of IDs would keep it busy for hours. */
const mostInFile = 10_000;

export const explain: CliCommand = {
  name: "explain",
  summary: "Take IDs apart, and name the recorded holder of their worker ID at that time.",
  details: [
    "The registry keeps a claim for 30 days after the end of its window, and the last claim of each worker ID forever.",
    "Prints a block for each ID, in the order given. JSON is an array, also for one ID. If one text is not an ID, the command prints only an error with the place of that text.",
  ],
  examples: [
    "snowlease explain 1278549019894743040",
    "snowlease explain --registry sqlite:/var/lib/snowlease/registry.db --json 1278549019894743040",
    "snowlease explain --file ids.txt",
  ],
  settings: registrySettings,
  flags: {
    "--file FILE": `A file of IDs, one per line, up to ${mostInFile}. Empty lines are skipped. \`-\` is stdin.`,
    ...readingFlags,
  },
  operands: { name: "[ID…]", least: 0, most: Infinity },

  async run(invocation) {
    const { output, json } = invocation;
    const reading = readingOf(invocation);
    const config = await registryConfig(invocation);
    const { namespace } = config;
    const ids = await idsOf(invocation);
    await withRegistry(config, async (registry) => {
      const layout = Layout.parse((await presentNamespace(registry, namespace)).layout);
      // Report a text that is no ID before asking the registry about thousands of others.
      for (const { text, from } of ids) inspect(text, layout, { ...reading, from });
      const found = await explainAll(registry, namespace, ids, reading);
      if (json) return jsonList(output, found.map(asJson));
      await output.line(found.map((one) => asText(one, reading.format)).join("\n\n"));
    });
  },
};

/** A text that should be an ID, and where it is, so that a user can correct it. */
interface PlacedId {
  readonly text: string;
  readonly from: string;
}

/** The IDs of the command line. @throws SnowleaseError CONFIG_INVALID if there are none, or too many in the file. */
async function idsOf({ flags, operands }: Invocation): Promise<readonly PlacedId[]> {
  const file = flags.get("file");
  if (file === undefined) {
    if (operands.length > 0) return operands.map((text, i) => ({ text, from: argumentText(i, operands.length) }));
    throw configInvalid(
      "`snowlease explain` expected ID… or `--file FILE`, got nothing; see `snowlease explain --help`.",
    );
  }
  if (operands.length > 0) {
    throw configInvalid(
      `Expected IDs either as arguments or with \`--file\`, got both (${shown(operands[0])} and ${shown(file)}); leave one out.`,
    );
  }
  const ids: PlacedId[] = [];
  for (const source of sourcesOf([String(file)]).sources) {
    for await (const { text, line } of textLines(source)) {
      if (ids.length === mostInFile) {
        throw configInvalid(
          `Expected up to ${mostInFile} IDs in ${shown(source.name)}, got more; name a shorter file, or check any number of IDs with \`snowlease audit\`.`,
        );
      }
      ids.push({ text, from: `line ${line} of ${source.name}` });
    }
    if (ids.length === 0) throw configInvalid(`Expected IDs in ${shown(source.name)}, got none; name a file of IDs.`);
  }
  return ids;
}

function argumentText(index: number, count: number): string {
  return count === 1 ? "the ID" : `argument ${index + 1}`;
}

async function explainAll(
  registry: Registry,
  namespace: string,
  ids: readonly PlacedId[],
  reading: Reading,
): Promise<readonly Explanation[]> {
  const progress = new Progress();
  const found: Explanation[] = [];
  try {
    for (const { text } of ids) {
      found.push(await explainId(registry, namespace, text, reading));
      if (ids.length > 1)
        progress.show("explaining", `${found.length} of ${ids.length} IDs`, found.length / ids.length);
    }
  } finally {
    progress.end();
  }
  return found;
}

/** In the form of the daemon's API. */
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
