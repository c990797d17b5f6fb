import type { Option } from "../config/options.ts";
import { flagShape, type FlagShape } from "./arguments.ts";
import type { CliCommand } from "./command.ts";
import { commonFlags } from "./terminal/help.ts";

/** The options of config.ts that a command takes. */
export async function settingsOf({ settings, without = [] }: CliCommand): Promise<readonly Option[]> {
  const { optionTable } = await import("../config/options.ts");
  return optionTable.filter(({ name, scopes }) => {
    if (typeof settings !== "string") return settings.includes(name);
    return scopes.includes(settings) && !without.includes(name);
  });
}

/** Every flag of a command. If a command names its options, each of them has a value, and the table of options need not be loaded. */
export async function flagsOf(command: CliCommand): Promise<readonly FlagShape[]> {
  const { settings, flags } = command;
  const shapes: readonly FlagShape[] =
    typeof settings === "string"
      ? (await settingsOf(command)).map(({ flag = "", value }) => ({ name: flag.slice(2), value }))
      : settings.map((name) => ({ name: name.replace(/[A-Z]/g, "-$&").toLowerCase(), value: "VALUE" }));
  return [...shapes, ...Object.keys({ ...flags, ...commonFlags }).map(flagShape)];
}
