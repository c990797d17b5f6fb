import { parseArgs } from "node:util";
import { configInvalid, shown } from "../id/errors.ts";
import { didYouMean } from "../id/did-you-mean.ts";
import type { CliCommand, Invocation } from "./command.ts";

/** A flag for the parser. */
export interface FlagShape {
  /** Without the dashes. */
  readonly name: string;
  readonly short?: string | undefined;
  /** Stands for the value; absent for a flag without one. */
  readonly value?: string | undefined;
}

/** The parts of a flag as `--help` shows it. */
export function flagShape(shown: string): FlagShape {
  const [, short, name = "", value] = /^(?:-(\w), )?--([\w-]+)(?: (\w+))?$/.exec(shown) ?? [];
  return { name, short, value };
}

/**
 * Reads a command line, more strictly than `parseArgs`: every flag has to be known, to occur once, and to have a
 * value where it needs one (which starts with a dash only after `=`).
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
    const word = words[most] ?? "";
    const advice = adviceOnWord(word, known, args[args.indexOf(word) - 1]);
    refuse(command, `${most === 0 ? "no argument" : `no more than ${name}`}, got ${shown(word)}${advice}`);
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
    const meant = similarFlag(name, known);
    const advice = meant === undefined ? adviceOnFlag(name, known) : `; did you mean \`--${meant}\`?`;
    return refuse(command, `known flags, got ${shown(rawName)}${advice}`);
  }
  if (flag.value === undefined) {
    if (value !== undefined) refuse(command, `the flag \`${rawName}\` without a value, got ${shown(value)}`);
    return true;
  }
  if (value === undefined || (!inlineValue && value.startsWith("-") && value !== "-")) {
    const rule = `the flag \`${rawName}\` to have a value: \`${rawName} ${flag.value}\``;
    if (value === undefined || known.some(({ name }) => value.startsWith(`--${name}`))) return refuse(command, rule);
    // The value may be a token.
    return refuse(command, `${rule}; a value that begins with a dash is written after \`--${name}=\``);
  }
  return value;
}

/** A flag that lifts a protection is never the advice: a user who meant another one may follow it. */
const waivers: ReadonlySet<string> = new Set(["force", "i-know", "insecure", "reset-window"]);

/** The flag that was meant: misspelt, called otherwise, or not written to its end. */
function similarFlag(name: string, known: readonly FlagShape[]): string | undefined {
  const names = known.map((flag) => flag.name).filter((name) => !waivers.has(name));
  const begun = names.filter((known) => name.length > 2 && known.startsWith(name));
  return didYouMean(name, names) ?? (begun.length === 1 ? begun[0] : undefined);
}

/** What to do about a flag that is the name of a parameter of registry URLs. */
function adviceOnFlag(name: string, known: readonly FlagShape[]): string {
  const isParameter = known.some((flag) => flag.name === "registry") && didYouMean(name, ["tls", "tlsCa"]) === "tlsCa";
  return isParameter ? "; the registry URL takes it, as `?tlsCa=FILE`" : "";
}

/** What to do about an argument too many. `before`: what stands before it. */
function adviceOnWord(word: string, known: readonly FlagShape[], before: string | undefined): string {
  if (word.includes("://") && known.some((flag) => flag.name === "registry")) return "; `--registry` names a registry";
  if (/^-./.test(word)) return "; a flag stands before `--`";
  const flag = known.find(({ name, value }) => value === undefined && before === `--${name}`);
  return flag === undefined ? "" : `; the flag \`--${flag.name}\` takes no value`;
}

function refuse(command: string, what: string): never {
  const end = what.endsWith("?") ? " See" : "; see";
  throw configInvalid(`\`snowlease ${command}\` expected ${what}${end} \`snowlease ${command} --help\`.`);
}
