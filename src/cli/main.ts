#!/usr/bin/env node
import { version } from "../assets.ts";
import { configInvalid, shown, type SnowleaseError } from "../id/errors.ts";
import { readArguments } from "./arguments.ts";
import type { CliCommand } from "./command.ts";
import { commands, firstCommands } from "./commands.ts";
import { errorLine, exitCodeOf, exitCodes, warningLine } from "./exit-codes.ts";
import { commandsElsewhere, meantBy } from "./meant.ts";
import { flagsOf, settingsOf } from "./flags.ts";
import { firstSteps, helpFor, overview } from "./terminal/help.ts";
import { Output } from "./terminal/output.ts";

// A closed stderr must not crash the command.
process.stderr.on("error", () => undefined);
// Node prints a warning with its pid and a second line for developers. With --no-warnings there is no listener to replace.
if (process.listenerCount("warning") > 0) {
  process.removeAllListeners("warning");
  process.on("warning", (warning) => void process.stderr.write(`${warningLine(warning)}\n`));
}
const output = new Output();
const exitCode = await main(process.argv.slice(2)).catch(report);
// A handle that a driver left open must not keep a finished command running.
process.exit(await output.end().then(() => exitCode, report));

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === "--version" || name === "-v" || name === "-V") return print(version());
  if (name === undefined) {
    const names = Object.keys(commands);
    await output.line(firstSteps(await loaded(names.filter((known) => firstCommands.includes(known))), names.length));
    // A script or a service that lost its command must not take this for success.
    return exitCodes.CONFIG_INVALID;
  }
  if (isHelp(name)) {
    const topic = rest.find((word) => !isHelp(word));
    // The topic alone: the words after it, as in `help migrate plan`, must not become its operands.
    if (topic !== undefined) return main([topic, "--help"]);
    return print(overview(await loaded(Object.keys(commands))));
  }
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (load === undefined) throw unknownCommand(name);
  // A registry's URL may hold a password, and every user of this host can read the arguments of a process.
  process.title = `snowlease ${name}`;
  const command = await load();
  const { flags, operands } = readArguments(command, rest, await flagsOf(command));
  if (flags.has("help")) return print(helpFor(command, await settingsOf(command)));
  return (await command.run({ flags, operands, output, json: flags.has("json") })) ?? 0;
}

function loaded(names: readonly string[]): Promise<CliCommand[]> {
  return Promise.all(names.flatMap((name) => commands[name]?.() ?? []));
}

/** As in other programs, `help COMMAND` is `COMMAND --help`. */
function isHelp(word: string): boolean {
  return ["help", "--help", "-h"].includes(word);
}

async function print(text: string): Promise<number> {
  await output.line(text);
  return 0;
}

function report(error: unknown): number {
  process.stderr.write(`${errorLine(error)}\n`);
  return exitCodeOf(error);
}

function unknownCommand(name: string): SnowleaseError {
  const isFlag = name.startsWith("-");
  const known = isFlag ? ["--help", "--version"] : [...Object.keys(commands), "help", "--version"];
  const meant = meantBy(name, known, commandsElsewhere);
  const advice = meant === undefined ? "see `snowlease --help`." : `did you mean \`${meant}\`?`;
  return configInvalid(`Expected a command${isFlag ? " before its flags" : ""}, got ${shown(name)}; ${advice}`);
}
