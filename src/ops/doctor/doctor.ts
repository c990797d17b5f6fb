import { statSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { lengthText } from "../../id/duration.ts";
import { defaultLayout, Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { isSnowleaseError, timeText } from "../../id/errors.ts";
import { formatPool } from "../../id/notation.ts";
import type { Pong, Registry } from "../../rule/registry.ts";
import { defaultLimits, type NamespaceInfo } from "../../rule/limits.ts";
import { forecastText, Growth, layoutEnd, type PoolForecast } from "../pool/forecast.ts";
import { storeOfRegistry } from "../../registries/index.ts";
import type { Encryption } from "../../registries/store-kind.ts";
import { type AddressList, AskedAddresses, differenceOf, differenceText } from "../../registries/mixed-list.ts";
import { type CheckResult, failed, finding } from "./check.ts";
import { scopeText } from "../../rule/scope.ts";
import { quarantineAdvice, quarantineText } from "../quarantine.ts";
import { checkFile, checkProcess, checkSync } from "./host.ts";
import { allUnused, countRecord, takenOf, takenStates } from "../pool/pool-counts.ts";
import { PoolReader } from "../pool/pool-reader.ts";

/** The server at the address of a registry, and the way to it. */
interface Sent {
  readonly to: "the daemon" | "the registry";
  /** How the connection is protected. Undefined if nothing is sent. */
  encryption(): Promise<Encryption | undefined>;
}

export interface ExamineRequest {
  /** Opens the registry. `examine` closes it. */
  readonly open: () => Promise<Registry>;
  readonly namespace: string;
  /** The configured layout of claims. Default: the namespace's. */
  readonly layout?: Layout | undefined;
  /** The configured pool of claims. Default: all worker IDs of the layout. */
  readonly pool?: PoolBounds | undefined;
  /** The addresses, if the registry has several. */
  readonly list?: AddressList | undefined;
  /** The connection to check. Default: no check. */
  readonly sent?: Sent | undefined;
  /** The registry's name in shown commands. Default: the word URL. */
  readonly flag?: string | undefined;
  /** The file of an embedded registry. */
  readonly file?: string | undefined;
  /** Whether the user named a registry. Otherwise it is the default file of this user. */
  readonly named: boolean;
  /** This host's wall clock, Unix ms. */
  readonly now: () => number;
}

const openText =
  "The registry's server asks for no password, although its URL has one: every client that reaches the server can change worker IDs. Set that password there.";
/** The share of a pool in use from which on operators should plan a larger one. */
const crowded = 0.8;
/** Operators are warned this long before a pool is full, ms. */
const soon = 30 * 24 * 3_600_000;
const pings = 5;
/** If even the quickest answer of a registry takes longer, it is slow, ms. Each claim and renewal needs a few answers. */
const slow = 250;

/** Checks the conditions for making IDs here, and changes nothing. A failed check is a finding, too, so it never rejects. */
export async function examine(request: ExamineRequest): Promise<readonly CheckResult[]> {
  const { file, open, layout = defaultLayout, now } = request;
  const place = await checkPlace(request);
  // If the file is missing or empty, opening the registry would create it.
  if (file !== undefined && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) {
    return [...place, checkEnd(layout, now())];
  }
  let registry: Registry | undefined;
  try {
    registry = await open();
    return [...(await checkRegistry(registry, request)), ...(await checkAddresses(request)), ...place];
  } catch (cause) {
    return [failed("registry", cause), ...place];
  } finally {
    await registry?.close().catch(() => undefined);
  }
}

/** Checks whether all addresses belong to one registry. Two registries would grant the same worker IDs. */
async function checkAddresses({ list, namespace }: ExamineRequest): Promise<readonly CheckResult[]> {
  if (list === undefined) return [];
  const { names, all } = list;
  const check = "addresses";
  const asked = new AskedAddresses(all);
  const answers = await Promise.all(
    asked.addresses.map(async (address, place) => ({ address, id: await asked.ask(place, namespace) })),
  );
  const difference = differenceOf(answers, namespace, true);
  if (difference !== undefined) {
    return [finding(check, "fail", `${differenceText(difference, names)}. Name only ${names}.`)];
  }
  const silent = answers.filter(({ id }) => id === undefined).map(({ address }) => address);
  if (silent.length > 0) {
    const detail = `It is not known whether all addresses are ${names}; no answer from ${silent.join(", ")}. Check that they run.`;
    return [finding(check, "warn", detail)];
  }
  // Addresses are compared by the id of the namespace, which does not exist yet.
  const isKnown = answers.every(({ id }) => typeof id === "string");
  if (isKnown) return [finding(check, "ok", `All ${all.length} addresses are ${names}.`)];
  return [finding(check, "ok", `All ${all.length} addresses answer; the first claim shows whether they are ${names}.`)];
}

/** The checks that need no registry. */
async function checkPlace({ named, file, sent }: ExamineRequest): Promise<readonly CheckResult[]> {
  const unnamed =
    "No registry is named: a worker ID is the end of the host's address, leased in a file that no other host or user sees. " +
    "Hosts with the same last address bits make the same IDs; so do two users of one host, unless it runs Linux, where the second is refused. " +
    "Name a registry that all of them reach (SNOWLEASE_REGISTRY).";
  return [
    ...(named ? [] : [finding("hosts", "warn", unnamed)]),
    ...(file === undefined ? [] : [await checkFile(file)]),
    ...(sent === undefined ? [] : await checkEncryption(sent)),
    await checkSync(),
    checkProcess(),
  ];
}

async function checkEncryption({ to, encryption }: Sent): Promise<readonly CheckResult[]> {
  const check = "encryption";
  const behind =
    to === "the daemon" ? " What the daemon sends to its own registry is for `doctor` with that registry's URL." : "";
  const result = (status: CheckResult["status"], detail: string): readonly CheckResult[] => [
    finding(check, status, `${detail}${behind}`),
  ];
  try {
    const found = await encryption();
    switch (found?.is) {
      case undefined:
        return [];
      case "encrypted":
        return result("ok", `What is sent to ${to} is encrypted, and the certificate is checked.`);
      case "local":
        return result("ok", `What is sent to ${to} stays on this host.`);
      case "unchecked":
        return result(
          "warn",
          `What is sent to ${to} is encrypted, but its certificate is not checked, so another server can answer in its place. Remove ${found.setting}.`,
        );
      case "plain":
        return result(
          "warn",
          `What is sent to ${found.addresses.join(", ")} is not encrypted: other hosts of the network can read it, and can answer in the place of ${to}. Set up TLS there, then write ${found.remedy}.`,
        );
    }
  } catch (cause) {
    return [failed(check, cause)];
  }
}

/** Rejects if the registry does not answer. */
async function checkRegistry(registry: Registry, request: ExamineRequest): Promise<readonly CheckResult[]> {
  const { namespace, now } = request;
  const ping = await quickestPing(registry, now);
  const { durability, lossy = false, schema, unguarded = false } = ping.answer;
  const reached = checkSpeed(registry, ping);
  let { maxClockSkew } = defaultLimits;
  let about: readonly CheckResult[];
  try {
    await registry.verify?.();
  } catch (cause) {
    return [failed("data", cause), reached];
  }
  try {
    const info = await registry.describe(namespace);
    maxClockSkew = info?.maxClockSkew ?? maxClockSkew;
    const registryClock = now() + ping.ahead;
    about =
      info === undefined
        ? [...checkAbsent(registry, request), await checkScope(registry, namespace)]
        : [
            checkId(namespace, info),
            await checkScope(registry, namespace),
            checkQuarantine(request, info, registryClock),
            ...(await checkNamespace(registry, info, request)),
          ];
  } catch (cause) {
    about = [failed("namespace", cause)];
  }
  return [
    reached,
    finding("durability", lossy ? "warn" : "ok", durability),
    ...(schema === undefined
      ? []
      : [finding("schema", "ok", `The stored schema has version ${schema}, which this release knows.`)]),
    ...(unguarded ? [finding("login", "warn", openText)] : []),
    checkClock(registry, ping, maxClockSkew, now()),
    ...about,
  ];
}

interface PingResult {
  readonly answer: Pong;
  /** Ms. */
  readonly took: number;
  /** How far the registry's clock is ahead of this host's, ms. The error is at most half of `took`. */
  readonly ahead: number;
}

/** Pings a few times. The first ping opens the connection, and the quickest one measures the clocks best. */
async function quickestPing(registry: Registry, now: () => number): Promise<PingResult> {
  const results: PingResult[] = [];
  for (let i = 0; i < pings; i++) {
    const [wall, start] = [now(), performance.now()];
    const answer = await registry.ping();
    const took = performance.now() - start;
    results.push({ answer, took, ahead: Math.round(answer.clock - wall - took / 2) });
  }
  return results.reduce((best, each) => (each.took < best.took ? each : best));
}

function checkSpeed({ kind }: Registry, { took }: PingResult): CheckResult {
  const detail = `The ${kind} registry answers in ${took.toFixed(2)} ms.`;
  if (took <= slow) return finding("registry", "ok", detail);
  return finding("registry", "warn", `${detail} Check its load and the network: every claim and renewal waits for it.`);
}

function checkClock(
  { kind }: Registry,
  { ahead, took }: PingResult,
  maxClockSkew: number,
  hostClock: number,
): CheckResult {
  const check = "clock";
  if (storeOfRegistry(kind)?.usesHostClock) {
    return finding(check, "ok", `The registry uses this host's own clock, which shows ${timeText(hostClock)}.`);
  }
  const off = Math.abs(ahead);
  const clocks = `The registry's clock shows ${timeText(hostClock + ahead)}, this host's ${timeText(hostClock)}`;
  const detail = `${clocks}: ${off} ms ${ahead < 0 ? "behind" : "ahead of"} this host's, give or take ${Math.ceil(took / 2)} ms; up to ${lengthText(maxClockSkew)} is tolerated.`;
  if (off > maxClockSkew) return finding(check, "fail", `${detail} Correct the wrong clock.`);
  return finding(check, off > maxClockSkew / 2 ? "warn" : "ok", detail);
}

function checkAbsent({ kind }: Registry, { namespace, layout = defaultLayout, now }: ExamineRequest): CheckResult[] {
  const absent = `\`${namespace}\` does not exist yet`;
  const made = storeOfRegistry(kind)?.claimMakesNamespace;
  const makers = made === undefined ? "`snowlease init`" : "`snowlease init` or the first claim";
  const existence =
    made === "in quarantine"
      ? finding(
          "namespace",
          "warn",
          `${absent}, or was forgotten: a first claim starts a quarantine. Only if it never existed, make it without one: \`snowlease init --new\`.`,
        )
      : finding(
          "namespace",
          "warn",
          `${absent}; ${makers} makes it. If programs use it already, they use another registry.`,
        );
  return [existence, checkEnd(layout, now())];
}

/** Reports the users of a registry, and other registries with the namespace. Programs that confuse two registries pass all other checks. */
async function checkScope(registry: Registry, namespace: string): Promise<CheckResult> {
  const check = "scope";
  try {
    const [scope, others = []] = await Promise.all([registry.scope?.(namespace), registry.elsewhere?.(namespace)]);
    if (scope === undefined) return finding(check, "ok", `The ${registry.kind} registry does not say who uses it.`);
    const text = scopeText(scope);
    if (others.length === 0) return finding(check, "ok", text);
    const advice = "If programs that use both make IDs for one purpose, name one of them in the registry URL of each.";
    return finding(check, "warn", `${text} A namespace \`${namespace}\` is also in ${others.join(", ")}. ${advice}`);
  } catch (cause) {
    return failed(check, cause);
  }
}

function checkId(namespace: string, { id, era }: NamespaceInfo): CheckResult {
  const check = "era";
  if (id !== undefined && era !== undefined)
    return finding(check, "ok", `The namespace's id is ${id}, its era ${era}.`);
  const detail = `\`${namespace}\` has no id, so no holder can prove that the store went back to an older copy of itself.`;
  return finding(check, "warn", `${detail} Use this version of Snowlease for the registry and its daemons.`);
}

function checkQuarantine({ namespace, flag }: ExamineRequest, info: NamespaceInfo, clock: number): CheckResult {
  const lasts = (info.quarantineUntil ?? 0) > clock;
  const advice = quarantineAdvice(info, { namespace, registry: flag, clock });
  const detail = [quarantineText(info, clock), ...(advice === undefined ? [] : [advice])].join(" ");
  return finding("quarantine", lasts ? "fail" : "ok", detail);
}

async function checkNamespace(
  registry: Registry,
  info: NamespaceInfo,
  { namespace, layout: asked, pool, now }: ExamineRequest,
): Promise<readonly CheckResult[]> {
  const layout = Layout.parse(info.layout);
  const stored = `\`${namespace}\` has the layout ${info.layout}`;
  const isAsked = asked === undefined || asked.fingerprint === info.layout;
  const detail = isAsked
    ? `${stored}, windows up to ${lengthText(info.maxWindow)}, clocks within ${lengthText(info.maxClockSkew)}.`
    : `${stored}, but claims here ask for ${asked.fingerprint} and will be refused; set the namespace's layout.`;
  return [
    finding("namespace", isAsked ? "ok" : "fail", detail),
    await checkRenewal(registry, namespace),
    checkEnd(layout, now()),
    await checkPool(registry, namespace, pool ?? layout.pool, now()),
  ];
}

/**
 * Rehearses a claim. It finds obstacles to real claims, and changes nothing. A renewal of a claim that does not exist is no
 * alternative: if another server of the store now answers, each request of a holder begins a quarantine.
 */
async function checkRenewal(registry: Registry, namespace: string): Promise<CheckResult> {
  const check = "renewal";
  try {
    await registry.rehearse?.(namespace);
    return finding(check, "ok", "Claims and renewals are permitted.");
  } catch (cause) {
    if (isSnowleaseError(cause, "FORBIDDEN") && cause.details["role"] !== undefined) {
      const detail =
        "The token may not claim, so nothing was tried. Whether a program may is known with a token of the role `worker`.";
      return finding(check, "unknown", detail);
    }
    return failed(check, cause);
  }
}

function checkEnd(layout: Layout, now: number): CheckResult {
  return { check: "layout", ...layoutEnd(layout, now) };
}

async function checkPool(registry: Registry, namespace: string, pool: PoolBounds, now: number): Promise<CheckResult> {
  const check = "pool";
  const growth = new Growth(now);
  const size = pool.last - pool.first + 1;
  const counts = allUnused(pool);
  const reader = new PoolReader(registry, namespace, pool);
  let marked = 0;
  let forecast: PoolForecast | undefined;
  try {
    while (!reader.isDone) {
      for (const record of await reader.page()) {
        growth.add(record);
        countRecord(counts, record);
        if (record.state === "free" && record.marked === true) marked++;
      }
    }
    forecast = await growth.forecast(registry, namespace, size - takenOf(counts));
  } catch (cause) {
    return failed(check, cause);
  }
  const sum = takenOf(counts);
  const kinds = takenStates.map((state) => `${counts[state]} ${state}`);
  const outlook = forecast === undefined ? "" : ` ${forecastText(forecast, now)}`;
  // Java processes begin at 0, so they do not see a pool that begins above 0.
  const javaSees =
    marked === 0 || pool.first > 0
      ? ""
      : ` ${marked} free ones still look taken to Java processes of westid; with \`beside=westid\` in the registry URL, claims release them.`;
  const detail = `${sum} of the ${size} worker IDs ${formatPool(pool)} are taken: ${kinds.join(", ")}.${javaSees}${outlook}`;
  const isFullSoon = (forecast?.fullAt ?? Infinity) - now < soon;
  if (sum < size * crowded && !isFullSoon) return finding(check, "ok", detail);
  return finding(check, sum < size ? "warn" : "fail", `${detail} Use a larger pool, or another namespace.`);
}
