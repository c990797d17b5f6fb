import { configInvalid, timeText } from "../../id/errors.ts";
import {
  endQuarantine,
  quarantineAdvice,
  quarantineReport,
  type QuarantineReport,
  quarantineText,
} from "../../ops/quarantine.ts";
import type { CliCommand, Invocation } from "../command.ts";
import {
  namedRegistryConfig,
  namespacesOf,
  registryConfig,
  registryFlag,
  registrySettings,
  withRegistry,
} from "../settings.ts";
import { jsonList, table } from "../terminal/output.ts";

export const quarantine: CliCommand = {
  name: "quarantine",
  summary:
    "Show whether namespaces are in quarantine, for how long, and the command that ends it early: `quarantine end`.",
  details: [
    "A store may have forgotten windows that it granted, after it was restored, promoted, moved, formed anew or emptied. It then grants and renews nothing until all these windows have passed. This is a quarantine. It ends by itself. Without an operator it costs time, and never causes a duplicate ID.",
    "JSON is an array, also for one namespace and for `quarantine end`.",
    "With `quarantine end` you confirm one thing for each process that got its worker ID from the store before it was restored: the process has stopped, or its window has passed. The store cannot check that. If such a process still makes IDs, another process may make the same IDs. A namespace that is new on a Redis has no such process. --era names the quarantine that you saw, so that the command never ends a later one. The command needs a registry that a flag, a variable or a config file names.",
  ],
  examples: [
    "snowlease quarantine orders users",
    "snowlease quarantine --json",
    "snowlease quarantine end --registry redis://localhost:6379 --namespace orders --era 1795433524000-5f0c2a91 --i-know",
  ],
  settings: registrySettings,
  flags: {
    "--era ERA": "For `end`: the present era, as `snowlease quarantine` shows it.",
    "--i-know": "For `end`: confirms that no process from before the restore still makes IDs.",
  },
  operands: { name: "[end] [NAMESPACE…]", least: 0, most: 1000 },

  async run(invocation) {
    const { output, json } = invocation;
    const [first, ...others] = invocation.operands;
    const ends = first === "end";
    const config = await (ends ? namedRegistryConfig(invocation) : registryConfig(invocation));
    const namespaces = await namespacesOf(ends ? others : invocation.operands, config);
    const era = endedEra(invocation, namespaces);
    const named = registryFlag(invocation, config);
    await withRegistry(config, async (registry) => {
      const reports: QuarantineReport[] = [];
      for (const namespace of namespaces) {
        if (era !== undefined) await endQuarantine(registry, { namespace, era });
        reports.push(await quarantineReport(registry, namespace, Date.now));
      }
      if (!json) return output.line(reports.map((report) => textOf(report, named)).join("\n\n"));
      return jsonList(
        output,
        reports.map((report) => ({
          ...report,
          remainingMs: Math.max(0, (report.quarantineUntil ?? 0) - report.clock),
        })),
      );
    });
  },
};

/** The era whose quarantine is to end; undefined for a look. @throws SnowleaseError CONFIG_INVALID without the operator's word. */
function endedEra({ operands, flags }: Invocation, namespaces: readonly string[]): string | undefined {
  const era = flags.get("era");
  if (operands[0] !== "end") {
    if (era === undefined && !flags.has("i-know")) return undefined;
    throw configInvalid(
      "Expected `--era` and `--i-know` after `snowlease quarantine end` only; leave them out for a look.",
    );
  }
  const [namespace = "", other] = namespaces;
  if (other !== undefined) {
    throw configInvalid(
      `Expected one namespace after \`snowlease quarantine end\`, got ${namespaces.length}; each has an era of its own: run \`snowlease quarantine ${namespaces.join(" ")}\`, which shows the command for each.`,
    );
  }
  if (typeof era !== "string") {
    throw configInvalid(
      "Expected `--era ERA`, got nothing; look at the quarantine with `snowlease quarantine` first, which shows it.",
    );
  }
  if (!flags.has("i-know")) {
    throw configInvalid(
      `Expected \`--i-know\`, got nothing. It is your word that each process that got a worker ID of namespace \`${namespace}\` from this store before the store was put back has stopped, or that its window has passed; where one still runs, it and the next holder of its worker ID make the same IDs. Stop them all, then repeat with \`--i-know\`; or wait: the quarantine ends by itself.`,
    );
  }
  return era;
}

/** `named`: how a command names the registry. */
function textOf(report: QuarantineReport, named: string | undefined): string {
  const { namespace, id, era, quarantineEnd, quarantineUntil, clock, hostClock } = report;
  const ahead = hostClock - clock;
  const difference = ahead === 0 ? "the same" : `${Math.abs(ahead)} ms ${ahead > 0 ? "ahead" : "behind"}`;
  const facts = table(
    ["NAMESPACE", namespace],
    [
      ["ID", id ?? "none"],
      ["ERA", era ?? "none"],
      ["QUARANTINE END", quarantineEnd === undefined ? "none" : timeText(quarantineEnd)],
      ["GRANTS AGAIN AT", quarantineUntil === undefined ? "grants now" : timeText(quarantineUntil)],
      ["REGISTRY CLOCK", timeText(clock)],
      ["HOST CLOCK", `${timeText(hostClock)} (${difference})`],
    ],
  );
  const advice = quarantineAdvice(report, { namespace, registry: named, clock });
  return [facts, "", quarantineText(report, clock), ...(advice === undefined ? [] : [advice])].join("\n");
}
