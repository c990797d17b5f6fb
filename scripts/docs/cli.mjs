import { commands } from "../../dist/cli/commands.js";
import { optionTable } from "../../dist/config/options.js";
import { table } from "./table.mjs";

const all = await Promise.all(Object.values(commands).map((load) => load()));

/** The commands that `snowlease --help` lists. */
export function commandTable() {
  const rows = all.map(({ name, summary }) => [`[\`${name}\`](#${name})`, summary]);
  return table([["command", "does"], ...rows]);
}

/** What `snowlease COMMAND --help` says of each command. */
export function commandPages() {
  return all.map(page).join("\n\n");
}

function page(command) {
  const { name, summary, details = [], operands, flags = {}, examples } = command;
  const usage = ["snowlease", name, "[flags]", ...(operands === undefined ? [] : [operands.name])].join(" ");
  const own = Object.entries(flags).map(([shown, meaning]) => [`\`${shown}\``, escaped(meaning)]);
  return [
    `### ${name}`,
    summary,
    `\`${usage}\``,
    ...details.map(escaped),
    ...(own.length === 0 ? [] : [table([["flag", "meaning"], ...own])]),
    ...taken(command),
    ["```sh norun=help", ...examples, "```"].join("\n"),
  ].join("\n\n");
}

function taken({ settings, without = [] }) {
  const flagOf = (name) => `\`${optionTable.find((option) => option.name === name).flag}\``;
  if (settings === "cli" || settings === "daemon") {
    const but = without.length === 0 ? "" : `, but for ${without.map(flagOf).join(" ")}`;
    return [`Takes every option of ${settings === "cli" ? "a claim" : "a daemon"}${but}.`];
  }
  return settings.length === 0 ? [] : [`Takes the options ${settings.map(flagOf).join(" ")}.`];
}

/** Plain text of the help, escaped for Markdown. */
function escaped(text) {
  return text.replaceAll("*", "\\*").replaceAll("_", "\\_").replaceAll("<", "&lt;");
}
