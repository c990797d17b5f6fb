import { parseArgs } from "node:util";
import { configInvalid, shown } from "../id/errors.ts";
import { didYouMean } from "../id/did-you-mean.ts";
import type { CliCommand, CommandFlag, Operands } from "./command.ts";

/** Flags and operands as they were written. */
export interface ParsedArguments {
  readonly flags: ReadonlyMap<string, string | true>;
  readonly operands: readonly string[];
}

/** The part of a flag that the parser needs. */
export type FlagShape = Pick<CommandFlag, "name" | "short" | "value">;

/**
 * Reads a command line, more strictly than `parseArgs`: every flag has to be known, to occur once, and to have a
 * value where it needs one (which starts with a dash only after `=`).
 * @throws SnowleaseError CONFIG_INVALID with the most similar flag.
 */
export function readArguments(
  { name: command, operands }: Pick<CliCommand, "name" | "operands">,
  args: readonly string[],
  known: readonly FlagShape[],
): ParsedArguments {
  const options = Object.fromEntries(
    known.map(({ name, short, value }) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), ...(short !== undefined && { short }) },
    ]),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const flags = new Map<string, string | true>();
  const words: string[] = [];
  for (const token of tokens) {
    if (operands?.program === true && token.kind !== "option") {
      words.push(...args.slice(token.kind === "option-terminator" ? token.index + 1 : token.index));
      break;
    }
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    if (flags.has(token.name)) refuse(command, `the flag \`${token.rawName}\` once, got it twice`);
    flags.set(token.name, valueOf(command, token, known));
  }
  // `--help` works without operands.
  if (!flags.has("help")) checkCount(command, words, operands);
  return { flags, operands: words };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function valueOf(
  command: string,
  { name, rawName, value, inlineValue }: OptionToken,
  known: readonly FlagShape[],
): string | true {
  const flag = known.find((flag) => flag.name === name);
  if (flag === undefined) {
    const meant = didYouMean(
      name,
      known.map((flag) => flag.name),
    );
    const advice = meant === undefined ? "" : `; did you mean \`--${meant}\`?`;
    return refuse(command, `known flags, got ${shown(rawName)}${advice}`);
  }
  if (flag.value === undefined) {
    if (value !== undefined) refuse(command, `the flag \`${rawName}\` without a value, got ${shown(value)}`);
    return true;
  }
  if (value === undefined || (inlineValue !== true && value.startsWith("-") && value !== "-")) {
    return refuse(command, `the flag \`${rawName}\` to have a value: \`${rawName} ${flag.value}\``);
  }
  return value;
}

function checkCount(command: string, words: readonly string[], operands: Operands | undefined): void {
  const { name = "", least = 0, most = 0 } = operands ?? {};
  if (words.length < least) refuse(command, `${name}, got nothing`);
  if (words.length > most)
    refuse(command, `${most === 0 ? "no argument" : `no more than ${name}`}, got ${shown(words[most])}`);
}

function refuse(command: string, what: string): never {
  const end = what.endsWith("?") ? " See" : "; see";
  throw configInvalid(`\`snowlease ${command}\` expected ${what}${end} \`snowlease ${command} --help\`.`);
}
