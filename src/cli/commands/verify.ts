import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { durationOf, lengthText } from "../../id/duration.ts";
import { configInvalid, shown } from "../../id/errors.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { onInterrupt } from "../processes/signals.ts";
import { type VerifyPart, verifyParts } from "../../verify/parts.ts";
import { addressOf, namedRegistryConfig } from "../settings.ts";
import { Progress } from "../terminal/progress.ts";
import { verifyText } from "../terminal/verify-text.ts";
import { integerOf } from "../values.ts";

/** The exit code of a check that found something. */
const found = 1;
/** The range of `--nemesis`, ms. */
const [shortest, longest] = [2000, 24 * 3_600_000];

export const verify: CliCommand = {
  name: "verify",
  summary: "Test your own registry for duplicate IDs, with the contract, restarts and a nemesis.",
  details: [
    "URL is the registry. Without it, --registry or SNOWLEASE_REGISTRY names the registry. Each part runs in its own namespaces, and removes them in the end. So it may run beside namespaces in use. The command says what it will do, and asks. --yes answers for you.",
    "The contract is a list of checks that each registry must pass. The restarts stop and kill processes that make IDs, and start them again with the clock set back. The nemesis disturbs six processes that share four worker IDs. It kills them (kill -9), stops and resumes them, sets their clocks forward and back, and cuts their network. The command compares each ID with every other.",
    "--restart restarts the server while processes make IDs, and between their lives. All users of this server notice it. A Redis then grants nothing in its other namespaces until their windows have passed.",
    "--module tests your own program in place of Snowlease. Its file is described in docs/testing.md. It gets { registry, namespace }. This run leaves out the contract.",
    "The report says what ran, and what could not run. The command exits with 0 if no ID came twice and all checks passed, else with 1.",
  ],
  examples: [
    "snowlease verify postgres://app@db1/app",
    'snowlease verify redis://localhost:6379 --restart "docker restart redis" --yes',
    "snowlease verify --nemesis 10m --seed 42 sqlite:./registry.db",
  ],
  settings: ["registry", "token", "config"],
  flags: {
    "--only PARTS": `Some of ${verifyParts.join(", ")}, with commas. Default: all of them.`,
    "--nemesis TIME": "How long the nemesis runs, such as 30s. Default: 20s.",
    "--seed NUMBER": "The seed of the faults, from 0 to 4294967295. Default: a random seed, which the command prints.",
    "--restart COMMAND": "A shell command that restarts the server, and ends when it is up or about to be.",
    "--module FILE": "A module that makes IDs, in place of Snowlease.",
    "--refusals CODES":
      "The codes of the errors with which the module refuses an ID, with commas. Default: those of Snowlease.",
    "--yes": "Continues without a question.",
  },
  operands: { name: "[URL]", least: 0, most: 1 },

  async run(invocation) {
    const { output, json } = invocation;
    const options = optionsOf(invocation);
    const { url, config } = await registryOf(invocation);
    const address = addressOf(config);
    const { isEmpty } = await import("../../registries/index.ts");
    if (address.kind === "memory") {
      throw configInvalid(
        'Expected a registry that several processes share, got "memory:"; name one such as sqlite:PATH.',
      );
    }
    if (options.module !== undefined && !existsSync(options.module)) {
      throw configInvalid(`Expected \`--module\` to name a file, got ${shown(options.module)}, which is not there.`);
    }
    if (isEmpty(address)) {
      throw configInvalid(
        `Expected a registry that exists, got ${address.redacted}, which does not; make it first with \`snowlease init --registry ${address.redacted}\`.`,
      );
    }
    await confirm(invocation, planOf(address.redacted, options));
    const { verify: tryAll } = await import("../../verify/verify.ts");
    const progress = new Progress();
    // These variables would choose worker IDs for the processes of this trial. The command has read its own options already.
    if (options.module === undefined) {
      for (const name of Object.keys(process.env)) if (/^(SNOWLEASE|WESTID)_/.test(name)) delete process.env[name];
    }
    const signal = onInterrupt();
    signal.addEventListener("abort", () => {
      progress.end();
      process.stderr.write(
        "snowlease: removing the namespaces verify_… of this run; the same signal again leaves them.\n",
      );
    });
    const tell = (phase: string, detail: string, share?: number): void => progress.show(phase, detail, share);
    const begun = Date.now();
    const report = await tryAll({ ...options, url, address, token: config.token, signal, tell }).finally(() =>
      progress.end(),
    );
    const context = { registry: address.redacted, begun, ended: Date.now() };
    if (json) await output.json({ ...context, ...report });
    else await output.line(verifyText(report, context));
    if (signal.aborted) return signal.reason as number;
    return report.failures.length > 0 ? found : 0;
  },
};

interface VerifyOptions {
  readonly parts: readonly VerifyPart[];
  readonly time: number;
  readonly seed: number | undefined;
  readonly restart: string | undefined;
  readonly module: string | undefined;
  readonly refusals: readonly string[] | undefined;
}

/** @throws SnowleaseError CONFIG_INVALID */
function optionsOf({ flags }: Invocation): VerifyOptions {
  const textOf = (name: string): string | undefined => (flags.has(name) ? String(flags.get(name)) : undefined);
  const given = textOf("nemesis");
  const time = durationOf(given ?? "20s");
  if (time === undefined || time < shortest || time > longest) {
    throw configInvalid(`Expected \`--nemesis\` to be a time from 2s to 24h, got ${shown(given)}; correct it.`);
  }
  const seed = flags.has("seed") ? integerOf(flags.get("seed"), "`--seed`", 0, 2 ** 32 - 1) : undefined;
  const module = textOf("module");
  if (module !== undefined && textOf("only") === "contract") {
    throw configInvalid(
      "Expected `--only` to leave restarts or nemesis to `--module`, got the contract alone, which is of registries; add one of them.",
    );
  }
  if (module === undefined && flags.has("refusals")) {
    throw configInvalid("Expected `--refusals` beside `--module` only; leave it out.");
  }
  const parts = (textOf("only")?.split(",") ?? verifyParts) as readonly VerifyPart[];
  const unknown = parts.find((part) => !verifyParts.includes(part));
  if (unknown !== undefined) {
    throw configInvalid(
      `Expected \`--only\` to name some of ${verifyParts.join(", ")}, got ${shown(unknown)}; correct it.`,
    );
  }
  return { parts, time, seed, restart: textOf("restart"), module, refusals: textOf("refusals")?.split(",") };
}

/** The registry, and its URL for other processes. @throws SnowleaseError CONFIG_INVALID */
async function registryOf(invocation: Invocation) {
  const { flags, operands } = invocation;
  const [operand] = operands;
  if (operand !== undefined && flags.has("registry")) {
    throw configInvalid("Expected the registry once, got an argument and `--registry`; leave one of them out.");
  }
  const named =
    operand === undefined ? invocation : { ...invocation, flags: new Map([...flags, ["registry", operand]]) };
  const config = await namedRegistryConfig(named);
  const url = named.flags.get("registry") ?? process.env["SNOWLEASE_REGISTRY"];
  if (typeof url === "string" && config.sources.registry?.level !== "file") return { url, config };
  throw configInvalid(
    "Expected the registry as an argument, in `--registry` or in SNOWLEASE_REGISTRY, got one of a config file; other processes do not read that file: name it here.",
  );
}

function planOf(where: string, { parts, time, restart }: VerifyOptions): string {
  const lengths = { contract: "about 1 min", restarts: "about 1 min", nemesis: lengthText(time) };
  const lines = [
    `This tries ${where}: ${parts.map((part) => `${part} (${lengths[part]})`).join(", ")}.`,
    "- It makes some 200 namespaces verify_…, in a database with tables of their own, and removes them in the end. Other namespaces stay as they are.",
    "- It starts, stops and kills processes of its own on this host.",
    ...(restart === undefined ? [] : [`- It runs \`${restart}\` a few times, which all who use this server notice.`]),
  ];
  return lines.join("\n");
}

/** @throws SnowleaseError CONFIG_INVALID if the answer is missing, or is not yes. */
async function confirm({ flags }: Invocation, plan: string): Promise<void> {
  if (flags.has("yes")) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw configInvalid(`Expected \`--yes\`, since no terminal can answer. ${plan.replaceAll("\n", " ")}`);
  }
  process.stderr.write(`${plan}\n`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C and Ctrl-D end the question without an answer.
  const ended = once(terminal, "close").then(() => "");
  const answer = await Promise.race([terminal.question("Go on? [y/N] ").catch(() => ""), ended]);
  terminal.close();
  if (/^y(es)?$/i.test(answer.trim())) return;
  throw configInvalid("Nothing was done.");
}
