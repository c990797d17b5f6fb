import type { Option } from "../../config/options.ts";
import type { CliCommand, CommandFlags } from "../command.ts";
import { exitCodeHelp } from "../exit-codes.ts";

/** Text is wrapped to this many columns. */
const columns = 100;
const indent = "  ";

/** Flags of every command. */
export const commonFlags: CommandFlags = { "--json": "Print JSON.", "-h, --help": "Print this help." };

const purpose = "Leases Snowflake worker IDs from a registry, so that no two generators ever share one.";
const usage = "Usage: snowlease COMMAND [flags]";

/** What `snowlease` alone prints. @param first the commands that a new user needs first. @param count the number of all commands. */
export function firstSteps(first: readonly Pick<CliCommand, "name" | "summary">[], count: number): string {
  return [
    purpose,
    "",
    usage,
    "",
    "Commands to begin with:",
    ...listing(first.map((command) => [command.name, firstSentence(command)])),
    "",
    `\`snowlease help\` lists all ${count} commands. \`snowlease help COMMAND\` explains one.`,
  ].join("\n");
}

/** The first sentence of a command's summary. */
export function firstSentence({ summary }: Pick<CliCommand, "summary">): string {
  return /^.*?\.(?= |$)/.exec(summary)?.[0] ?? summary;
}

/** What `snowlease --help` prints. */
export function overview(commands: readonly Pick<CliCommand, "name" | "summary">[]): string {
  return [
    purpose,
    "",
    usage,
    "",
    ...listing(commands.map(({ name, summary }) => [name, summary])),
    "",
    "`snowlease COMMAND --help` explains a command; `snowlease --version` prints the version.",
    ...wrapped(
      "Options come from flags, else from the environment, else from a config file (snowlease.json), else from their defaults.",
    ),
    ...wrapped(`Exit codes: ${exitCodeHelp}.`),
  ].join("\n");
}

/** What `snowlease COMMAND --help` prints, made of the command's own flags and the options that it takes. */
export function helpFor(command: CliCommand, settings: readonly Option[]): string {
  const { name, summary, details = [], operands, examples, flags } = command;
  const form = ["snowlease", name, "[flags]", ...(operands === undefined ? [] : [operands.name])].join(" ");
  const options = settings.map((option): HelpRow => [
    `${option.flag ?? ""} ${option.value ?? ""}`.trimEnd(),
    `${option.description} (${notes(option)})`.replaceAll("`", ""),
  ]);
  return [
    ...wrapped(summary),
    "",
    `Usage: ${form}`,
    ...details.flatMap((paragraph) => ["", ...wrapped(paragraph)]),
    "",
    "Flags:",
    ...listing(Object.entries({ ...flags, ...commonFlags })),
    "",
    ...(options.length === 0
      ? []
      : ["Options, also from the environment and the config file:", ...listing(options), ""]),
    "Examples:",
    ...examples.map((example) => `${indent}${example}`),
  ].join("\n");
}

type HelpRow = readonly [left: string, right: string];

/** The other places where an option can be set, and its default. */
function notes({ name, default: byDefault, env = "", scopes }: Option): string {
  return [`default ${byDefault}`, env, ...(scopes.includes("url") ? [`?${name}= in the URL`] : [])].join("; ");
}

function listing(rows: readonly HelpRow[]): string[] {
  const width = Math.min(28, Math.max(...rows.map(([left]) => left.length)));
  const gap = `${indent}${" ".repeat(width)}${indent}`;
  return rows.flatMap(([left, right]) => {
    const [first = "", ...rest] = wrapped(right, columns - gap.length);
    const begin = `${indent}${left.padEnd(width)}`;
    const head = left.length > width ? [begin, `${gap}${first}`] : [`${begin}${indent}${first}`];
    return [...head, ...rest.map((line) => `${gap}${line}`)];
  });
}

function wrapped(text: string, width: number = columns): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1) ?? "";
    if (last !== "" && last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines;
}
