import { parseArgs } from "node:util";
import { configInvalid, shown } from "../id/errors.ts";
import type { CliCommand, Invocation } from "./command.ts";
import { flagsElsewhere, meantBy } from "./meant.ts";

/** A flag for the parser. */
export interface FlagShape {
  /** Without the dashes. */
  readonly name: string;
  readonly short?: string | undefined;
  /** A placeholder for the value, as in `-n, --count NUMBER`; absent for a flag without a value. */
  readonly value?: string | undefined;
}

/** The parts of a flag as `--help` shows it. */
export function flagShape(shown: string): FlagShape {
  const [, short, name = "", value] = /^(?:-(\w), )?--([\w-]+)(?: (\w+))?$/.exec(shown) ?? [];
  return { name, short, value };
}

/**
 * Reads a command line, more strictly than `parseArgs`. Each flag must be known, must occur once, and must have a value if it needs one.
 * A value that starts with a dash needs `=`.
 * @throws SnowleaseError CONFIG_INVALID with the most similar flag.
 */
export function readArguments(
  { name: command, operands }: Pick<CliCommand, "name" | "operands">,
  args: readonly string[],
  known: readonly FlagShape[],
): Pick<Invocation, "flags" | "operands"> {
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
  const { name = "", least = 0, most = 0 } = operands ?? {};
  // `--help` works without operands.
  if (words.length < least && !flags.has("help")) refuse(command, `${name}, got nothing`);
  if (words.length > most && !flags.has("help")) {
    refuse(command, `${most === 0 ? "no argument" : `no more than ${name}`}, got ${shown(words[most])}`);
  }
  return { flags, operands: words };
}

type Token = NonNullable<ReturnType<typeof parseArgs>["tokens"]>[number];

function valueOf(
  command: string,
  { name, rawName, value, inlineValue }: Extract<Token, { kind: "option" }>,
  known: readonly FlagShape[],
): string | true {
  const flag = known.find((flag) => flag.name === name);
  if (flag === undefined) {
    if (/^-\d/.test(rawName)) refuse(command, `no negative number, got ${shown(rawName)}`);
    const names = known.map((flag) => flag.name);
    const meant = meantBy(name, names, flagsElsewhere);
    const advice = meant === undefined ? "" : `; did you mean \`--${meant}\`?`;
    return refuse(command, `known flags, got ${shown(rawName)}${advice}`);
  }
  if (flag.value === undefined) {
    if (value !== undefined) refuse(command, `the flag \`${rawName}\` without a value, got ${shown(value)}`);
    return true;
  }
  // A negative number is not a flag. The code that reads the value refuses it, and names the allowed values.
  if (value === undefined || (!inlineValue && /^-[^\d]/.test(value))) {
    return refuse(command, `the flag \`${rawName}\` to have a value: \`${rawName} ${flag.value}\``);
  }
  return value;
}

function refuse(command: string, what: string): never {
  const end = what.endsWith("?") ? " See" : "; see";
  throw configInvalid(`\`snowlease ${command}\` expected ${what}${end} \`snowlease ${command} --help\`.`);
}
