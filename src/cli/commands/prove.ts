import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { release } from "node:os";
import { promisify } from "node:util";
import { version } from "../../assets.ts";
import type { ConformanceResult } from "../../conformance/run.ts";
import { configInvalid, shown } from "../../id/errors.ts";
import {
  dropRun,
  isRun,
  mostNamespaces,
  namespaceOf,
  prove as proveRegistry,
  type ProofBeginning,
  type ProofResults,
} from "../../proof/prove.ts";
import type { RegistryAddress } from "../../registries/index.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { onInterrupt } from "../processes/signals.ts";
import { addressOf, registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { linesOf } from "../terminal/output.ts";
import { Progress } from "../terminal/progress.ts";
import { integerOf } from "../values.ts";

/** The longest nemesis, minutes. */
const mostMinutes = 60;

export const prove: CliCommand = {
  name: "prove",
  summary: "Prove a registry of yours: its contract, restarts of processes, and a nemesis of holders.",
  details: [
    "Runs each check of the registry contract, the restart matrix, and holders that are killed, stopped and cut off from the server while they make IDs, all in namespaces of its own; compares every ID with every other. The report can be pasted into a ticket: it has no secret.",
    "The namespaces begin with snowlease_proof_; no other one is touched, and no setting of the server. They are dropped in the end, also on Ctrl-C. If this command is killed, `--drop RUN` drops what it left. It needs the rights of an operator: to make namespaces (in a database: tables), and to delete them.",
    "It makes some thousands of calls within a few minutes, two at a time, and 6 holders renew once in half a second.",
  ],
  examples: [
    "snowlease prove --registry redis://db:6379",
    "snowlease prove --registry mysql://snowlease@db/ids --restart 'systemctl restart mysql' --json",
    "snowlease prove --registry redis://db:6379 --drop k3f9z",
  ],
  settings: registrySettings.filter((name) => name !== "namespace"),
  flags: {
    "--minutes NUMBER": `How long the nemesis strikes, 0 to ${mostMinutes}. Default: 1.`,
    "--seed NUMBER": "Strikes as the run with this seed did. Default: random.",
    "--restart COMMAND":
      "A shell command that ends the server at once and starts it again. Left out: what needs it is not run. All clients of the server are hit.",
    "--drop RUN": "Only drops what the run of this name left behind.",
  },

  async run(invocation) {
    const { flags, output, json } = invocation;
    const minutes = flags.has("minutes") ? integerOf(flags.get("minutes"), "`--minutes`", 0, mostMinutes) : 1;
    const seed = flags.has("seed") ? integerOf(flags.get("seed"), "`--seed`", 0, 2 ** 31 - 1) : randomInt(2 ** 31);
    const command = flags.get("restart");
    const left = flags.get("drop");
    const config = await registryConfig(invocation);
    const address = addressOf(config);
    if (address.kind === "memory") {
      throw configInvalid(
        "Expected `--registry` to be one that several processes share, got `memory:`; name another one.",
      );
    }
    const progress = new Progress();
    if (left !== undefined) return dropLeft(invocation, left, progress);

    const begunAt = Date.now();
    const url = urlOf(address);
    let beginning: ProofBeginning | undefined;
    const signal = onInterrupt();
    let results: ProofResults;
    try {
      // Refuses an embedded registry that does not exist.
      await withRegistry(config, (registry) => registry.ping());
      results = await proveRegistry({
        url,
        operationTimeout: config.operationTimeout,
        token: config.token,
        minutes,
        seed,
        ...(typeof command === "string" && { restart: () => restarted(command) }),
        signal,
        async begun(proof) {
          beginning = proof;
          if (!json) await output.line(headOf(proof, address.redacted, begunAt));
        },
        progress: (part, title, share) => progress.show(part, title, share),
      });
    } finally {
      progress.end();
    }
    const repeat = repeatOf(address.redacted, minutes, seed, command);
    const report = { ...results, seconds: Math.round((Date.now() - begunAt) / 1000), repeat };
    if (json) {
      const { contract, restarts, ...rest } = report;
      const plain = (each: readonly ConformanceResult[]) => each.map(asJson);
      const versions = { snowlease: version(), node: process.version, platform: `${process.platform} ${release()}` };
      await output.json({
        ...versions,
        registry: address.redacted,
        ...beginning,
        begunAt,
        ...rest,
        contract: plain(contract),
        restarts: plain(restarts),
      });
    } else await output.line(textOf(report));
    if (signal.aborted) return Number(signal.reason);
    return isProven(results) ? 0 : 1;
  },
};

async function dropLeft(invocation: Invocation, run: string | true, progress: Progress): Promise<void> {
  if (typeof run !== "string" || !isRun(run)) {
    throw configInvalid(
      `Expected \`--drop\` to be the name of a run, like k3f9z, got ${shown(run)}; it stands at the top of its report.`,
    );
  }
  const config = await registryConfig(invocation);
  try {
    const found = await withRegistry(config, (registry) =>
      dropRun(registry, run, (share) => progress.show("dropping", run, share)),
    );
    progress.end();
    if (invocation.json) return await invocation.output.json({ run, dropped: found });
    await invocation.output.line(`Nothing of the run ${run} is left; of its namespaces, ${found} still existed.`);
  } finally {
    progress.end();
  }
}

/** The URL with its secrets: holders get it in their environment. */
function urlOf(address: RegistryAddress): string {
  const { text, parameters, settings = {} } = address as RegistryAddress & { settings?: Record<string, string> };
  const query = Object.entries({ ...parameters, ...settings }).map(
    ([name, value]) => `${name}=${encodeURIComponent(value)}`,
  );
  return query.length === 0 ? text : `${text}?${query.join("&")}`;
}

async function restarted(command: string): Promise<void> {
  await promisify(execFile)("sh", ["-c", command]);
}

function headOf({ kind, run, durability, schema }: ProofBeginning, registry: string, begunAt: number): string {
  return linesOf(
    `snowlease   ${version()}, Node ${process.version}, ${process.platform} ${release()}`,
    `registry    ${kind} ${registry}${schema === undefined ? "" : `, schema ${schema}`}`,
    `durability  ${durability}`,
    `begun       ${new Date(begunAt).toISOString()}`,
    `run         ${run}: namespaces ${namespaceOf(run, 0)} to ${namespaceOf(run, mostNamespaces - 1)}, and those with _b behind the name`,
    `            If this command is killed: snowlease prove --registry ${registry} --drop ${run}`,
  );
}

function textOf(report: ProofResults & { readonly seconds: number; readonly repeat: string }): string {
  const { contract, restarts, nemesis, uncut, calls, left, whyLeft, seconds, repeat } = report;
  const struck =
    typeof nemesis === "string"
      ? `not run: ${nemesis}`
      : `${nemesis.ids} IDs of ${nemesis.processes} processes under ${Object.entries(nemesis.faults)
          .map(([name, count]) => `${count} ${name}`)
          .join(", ")}: ` +
        (nemesis.flaws.length === 0 ? "none twice, none outside of its window" : `${nemesis.flaws.length} flaws`);
  const failed = [...contract, ...restarts].flatMap((each) =>
    each.outcome === "failed" ? [`FAILED      ${each.title}`, `            ${messageOf(each.error)}`] : [],
  );
  const skipped = [...contract, ...restarts].flatMap((each) =>
    each.outcome === "skipped" ? [`SKIPPED     ${each.title}: ${each.reason}`] : [],
  );
  return linesOf(
    `took        ${seconds} s`,
    `calls       ${calls} by this process${typeof nemesis === "string" ? "" : `, and about ${nemesis.calls} claims and renewals by the nemesis's holders`}`,
    "",
    `contract    ${countsOf(contract)}`,
    `restarts    ${countsOf(restarts)}`,
    `nemesis     ${struck}`,
    ...failed,
    ...(typeof nemesis === "string" ? [] : nemesis.flaws.map((flaw) => `FAILED      nemesis: ${flaw}`)),
    ...skipped,
    uncut !== undefined && `SKIPPED     connections that are cut: ${uncut}`,
    "",
    left.length === 0
      ? "left        nothing: each namespace was dropped"
      : `LEFT        ${left.join(" ")} (${whyLeft ?? "the proof was ended"}); drop them with \`snowlease drop\``,
    `repeat      ${repeat}`,
  );
}

function countsOf(results: readonly ConformanceResult[]): string {
  const count = (wanted: ConformanceResult["outcome"]) => results.filter(({ outcome }) => outcome === wanted).length;
  return `${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped`;
}

function messageOf(error: unknown): string {
  const said =
    error instanceof Error ? `${"code" in error ? `${String(error.code)}: ` : ""}${error.message}` : String(error);
  return said.replace(/\s*\n\s*/g, " | ");
}

function asJson(result: ConformanceResult): object {
  return result.outcome === "failed" ? { ...result, error: messageOf(result.error) } : result;
}

function repeatOf(registry: string, minutes: number, seed: number, command: string | true | undefined): string {
  const restart = typeof command === "string" ? ` --restart '${command.replaceAll("'", `'\\''`)}'` : "";
  return `snowlease prove --registry ${registry} --minutes ${minutes} --seed ${seed}${restart}`;
}

/** A proof that was ended early has proved nothing. */
function isProven({ contract, restarts, nemesis, left }: ProofResults): boolean {
  const isSound = [...contract, ...restarts].every(({ outcome }) => outcome !== "failed");
  return isSound && typeof nemesis !== "string" && nemesis.flaws.length === 0 && left.length === 0;
}
