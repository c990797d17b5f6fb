import { readFileSync } from "node:fs";
import type { Config } from "../../config/config.ts";
import { configInvalid, isSnowleaseError, timeText, withSource } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { utf8Text } from "../../id/utf8.ts";
import { readHosts } from "../../ops/migrate/addresses.ts";
import type { Plan } from "../../ops/migrate/plan.ts";
import type { SourceContents, SourceKind } from "../../ops/migrate/source.ts";
import { isSameStore, readSource, sourceLayouts } from "../../ops/migrate/sources.ts";
import { hostFindings } from "../../ops/migrate/sources/ip.ts";
import type { Invocation } from "../command.ts";
import { addressOf } from "../settings.ts";
import { integerOf } from "../values.ts";

/** The layout of the IDs of the old scheme. `fallback`: the layout for hosts that take the last bits of their address. */
export function sourceLayoutOf({ flags }: Invocation, from: SourceKind, fallback: Layout, now: number): Layout {
  const named = flags.get("source-layout");
  const own = from === "ip" ? fallback : Layout.parse(sourceLayouts[from]);
  const layout = named === undefined ? own : withSource("--source-layout", () => Layout.parse(String(named)));
  // The layout of a list of hosts is that of the namespace. Other commands judge it.
  if (from === "ip" || layout.endOfLife > now) return layout;
  throw configInvalid(
    `The layout ${layout.fingerprint} of ${from} ended at ${timeText(layout.endOfLife)}; name the layout of its programs with \`--source-layout\`.`,
  );
}

/** How many worker IDs the source can hand out. */
export function numbersOf({ flags }: Invocation, { workerBits }: Layout): number {
  const bits = flags.get("worker-bits");
  return 2 ** (bits === undefined ? workerBits : integerOf(bits, "`--worker-bits`", 1, workerBits));
}

/** What the source of a plan holds. */
export async function readFirst(
  { flags, operands }: Invocation,
  from: SourceKind,
  layout: Layout,
  numbers: number,
  { operationTimeout }: Config,
): ReturnType<typeof readSource> {
  const [, url] = operands;
  const hosts = flags.get("hosts");
  if (from !== "ip") {
    if (url === undefined || hosts !== undefined) {
      throw configInvalid(`Expected \`--from ${from} URL\`, and no \`--hosts\`; name its server.`);
    }
    return readSource(from, url, { numbers, operationTimeout });
  }
  if (typeof hosts !== "string" || url !== undefined) {
    throw configInvalid("Expected `--from ip` with `--hosts FILE`, and no URL; name the file.");
  }
  return { findings: hostFindings(readHosts(textOf(hosts), hosts), layout), source: hosts };
}

/**
 * Whether the registry keeps the leases in the store that is the source.
 * @throws SnowleaseError CONFIG_INVALID if the registry's URL lacks `beside=westid`.
 */
export function sharesStore({ operands }: Invocation, from: SourceKind, config: Config): boolean {
  const [, url] = operands;
  if (url === undefined || config.registryFrom !== "named") return false;
  const address = addressOf(config);
  if (!isSameStore(from, url, address, config.namespace)) return false;
  if (address.kind !== "redis" || address.settings["beside"] === "westid") return true;
  throw configInvalid(
    `The registry ${address.redacted} is the Redis of westid itself; write \`beside=westid\` in its URL, here and for each program that leases from it.`,
  );
}

/**
 * What the source of a plan holds now.
 * @throws SnowleaseError CONFIG_INVALID if the plan does not say how to reach the source, or `--source` names another source; and the
 * errors of reading it.
 */
export async function readAgain(
  { flags }: Invocation,
  plan: Plan,
  { operationTimeout }: Config,
): Promise<SourceContents> {
  const { from, source, sourceLayout, numbers, highest } = plan;
  const [hosts, url] = [flags.get("hosts"), flags.get("source")];
  if (from === "ip") {
    if (url !== undefined) {
      throw configInvalid("Expected `--hosts FILE` and no `--source` for a plan of addresses; leave `--source` out.");
    }
    const file = String(hosts ?? source);
    return hostFindings(readHosts(textOf(file), file), Layout.parse(sourceLayout));
  }
  if (hosts !== undefined) throw configInvalid(`Expected no \`--hosts\` for a plan of ${from}; leave it out.`);
  if (url === undefined && source.includes("***")) {
    throw configInvalid(
      `The source ${source} needs a login, which the plan does not contain; name it with \`--source URL\`.`,
    );
  }
  try {
    const again = await readSource(from, String(url ?? source), { numbers, operationTimeout });
    if (bare(again.source) === bare(source)) return again.findings;
    throw configInvalid(
      `Expected \`--source\` to be ${source}, the source of the plan, got ${again.source}; correct it, or plan again.`,
    );
  } catch (error) {
    // Each program has ended, and has removed its entry.
    if (isSnowleaseError(error, "NOT_FOUND")) {
      return { makers: [], retired: [], reach: { next: "none", highest }, takesOver: true, remarks: [] };
    }
    throw error;
  }
}

/** A source without its login. */
function bare(source: string): string {
  return source.replace(/\/\/[^@/]*@/, "//");
}

/** The text of a file. @throws SnowleaseError CONFIG_INVALID */
export function textOf(file: string): string {
  try {
    const text = utf8Text(readFileSync(file));
    if (text !== undefined) return text;
  } catch (error) {
    const what = (error as NodeJS.ErrnoException).code === "ENOENT" ? "it does not exist" : (error as Error).message;
    throw configInvalid(`The file \`${file}\` cannot be read (${what}); name another.`);
  }
  throw configInvalid(`The file \`${file}\` is not UTF-8; save it as UTF-8.`);
}
