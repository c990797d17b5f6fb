import type { OptionScope } from "../config/options.ts";
import type { Output } from "./terminal/output.ts";

/** Flags of a command as `--help` shows them, such as `-n, --count NUMBER`, each with its meaning. */
export type CommandFlags = Readonly<Record<string, string>>;

/** The operands of a command: its arguments without a dash. */
interface Operands {
  /** `ID…` */
  readonly name: string;
  readonly least: number;
  readonly most: number;
  /** The operands are the command line of another program: after the first operand, no word is a flag of Snowlease. */
  readonly program?: boolean | undefined;
}

/** A parsed command line. */
export interface Invocation {
  /** Values of flags by name, without dashes, as written; true for a flag without a value. */
  readonly flags: ReadonlyMap<string, string | true>;
  readonly operands: readonly string[];
  readonly output: Output;
  readonly json: boolean;
}

/** A command of the CLI. */
export interface CliCommand {
  readonly name: string;
  readonly summary: string;
  /** Further lines of `--help`. */
  readonly details?: readonly string[] | undefined;
  readonly examples: readonly string[];
  /** The options that the command takes: all options of a scope, or options by name. Each option by name has a value. */
  readonly settings: OptionScope | readonly string[];
  /** Options of the scope that mean nothing to this command. */
  readonly without?: readonly string[] | undefined;
  /** Flags besides the options. */
  readonly flags?: CommandFlags | undefined;
  readonly operands?: Operands | undefined;
  /** Runs the command. Resolves to the exit code, by default 0. */
  run(invocation: Invocation): Promise<number | void>;
}
