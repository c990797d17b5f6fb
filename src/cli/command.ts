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
  /** The operands are another program's command line: from the first one on nothing is a flag of ours. */
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
  /** The options that it takes: all of a scope, or some by name, each of which has a value. */
  readonly settings: OptionScope | readonly string[];
  /** Of a whole scope, those that mean nothing to it. */
  readonly without?: readonly string[] | undefined;
  /** Besides its options. */
  readonly flags?: CommandFlags | undefined;
  readonly operands?: Operands | undefined;
  /** Runs it; resolves to the exit code, 0 when left out. */
  run(invocation: Invocation): Promise<number | void>;
}
