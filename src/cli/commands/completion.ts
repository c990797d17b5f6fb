import { configInvalid, shown } from "../../id/errors.ts";
import type { CliCommand } from "../command.ts";
import { flagsOf } from "../flags.ts";
import { firstSentence } from "../terminal/help.ts";

/** What a shell offers after one command. */
interface Offer {
  readonly command: string;
  /** The first sentence of its summary. */
  readonly summary: string;
  /** With their dashes. */
  readonly flags: readonly { readonly flag: string; readonly takesValue: boolean }[];
}

type CommandTable = Readonly<Record<string, () => Promise<CliCommand>>>;

const shells: Readonly<Record<string, (offers: readonly Offer[]) => string>> = { bash, zsh, fish };
const names = Object.keys(shells).join(", ");

/** `commands`: all commands, also this one. */
export function completion(commands: CommandTable): CliCommand {
  return {
    name: "completion",
    summary: "Print a script with which a shell completes commands and flags.",
    details: [
      `SHELL is one of ${names}. The script holds the commands and flags of this version. Print it again after an update.`,
    ],
    examples: [
      "source <(snowlease completion bash)",
      "snowlease completion zsh > ~/.zsh/functions/_snowlease",
      "snowlease completion fish > ~/.config/fish/completions/snowlease.fish",
    ],
    settings: [],
    operands: { name: "SHELL", least: 1, most: 1 },

    async run({ operands: [shell = ""], output, json }) {
      const script = Object.hasOwn(shells, shell) ? shells[shell] : undefined;
      if (script === undefined) {
        throw configInvalid(`Expected SHELL to be one of ${names}, got ${shown(shell)}; name one of them.`);
      }
      const loaded = await Promise.all(Object.values(commands).map((load) => load()));
      const text = script(await Promise.all(loaded.map(offerOf)));
      if (json) return output.json({ shell, script: text });
      await output.line(text);
    },
  };
}

async function offerOf(command: CliCommand): Promise<Offer> {
  const flags = (await flagsOf(command)).map(({ name, value }) => ({
    flag: `--${name}`,
    takesValue: value !== undefined,
  }));
  return { command: command.name, summary: firstSentence(command).replace(/\.$/, ""), flags };
}

function bash(offers: readonly Offer[]): string {
  const words = (offer: Offer): string => offer.flags.map(({ flag }) => flag).join(" ");
  return `# Completion of snowlease for bash.
_snowlease() {
  local word=\${COMP_WORDS[COMP_CWORD]} flags=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "${offers.map(({ command }) => command).join(" ")} help" -- "$word"))
    return
  fi
  case \${COMP_WORDS[1]} in
${offers.map((offer) => `    ${offer.command}) flags="${words(offer)}" ;;`).join("\n")}
    help) COMPREPLY=($(compgen -W "${offers.map(({ command }) => command).join(" ")}" -- "$word")) ;;
  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word")); fi
}
# Where it offers nothing, bash completes the names of files.
complete -o default -F _snowlease snowlease`;
}

function zsh(offers: readonly Offer[]): string {
  const text = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
  const entries = offers.map(({ command, summary }) => text(`${command}:${summary.replaceAll(":", "\\:")}`));
  return `#compdef snowlease
# Completion of snowlease for zsh.
_snowlease() {
  local -a commands flags
  commands=(
${entries.map((entry) => `    ${entry}`).join("\n")}
  )
  if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
    _describe command commands
    return
  fi
  case $words[2] in
${offers.map(({ command, flags }) => `    ${command}) flags=(${flags.map(({ flag }) => flag).join(" ")}) ;;`).join("\n")}
  esac
  if [[ $PREFIX == -* ]]; then compadd -a flags; else _files; fi
}
if [[ $funcstack[1] == _snowlease ]]; then _snowlease "$@"; else compdef _snowlease snowlease; fi`;
}

function fish(offers: readonly Offer[]): string {
  const text = (word: string): string => `'${word.replace(/[\\']/g, "\\$&")}'`;
  const first = "__fish_use_subcommand";
  return [
    "# Completion of snowlease for fish.",
    `complete -c snowlease -f -n ${first}`,
    ...offers.flatMap(({ command, summary, flags }) => [
      `complete -c snowlease -n ${first} -a ${command} -d ${text(summary)}`,
      ...flags.map(
        ({ flag, takesValue }) =>
          `complete -c snowlease -n '__fish_seen_subcommand_from ${command}' -l ${flag.slice(2)}${takesValue ? " -r" : ""}`,
      ),
    ]),
  ].join("\n");
}
