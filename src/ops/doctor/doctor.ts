import { statSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { systemClock } from "../../lease/clock.ts";
import { askInTime } from "../../lease/late-request.ts";
import { defaultLayout, Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { formatPool } from "../../id/notation.ts";
import { type Pong, type Registry } from "../../rule/registry.ts";
import { defaultLimits, type NamespaceInfo } from "../../rule/limits.ts";
import { forecastText, Growth, layoutEnd } from "../pool/forecast.ts";
import { attempted, type CheckResult, failed } from "./check.ts";
import { checkFile, checkProcess, checkSync } from "./host.ts";
import { allUnused, countRecord, takenOf, takenStates } from "../pool/pool-counts.ts";
import { PoolReader } from "../pool/pool-reader.ts";

/** The subject of an examination. */
export interface ExamineRequest {
  /** Opens the registry; it is closed in the end. */
  readonly open: () => Promise<Registry>;
  readonly namespace: string;
  /** The layout that claims are set to bring. Default: the namespace's. */
  readonly layout?: Layout | undefined;
  /** The worker IDs that claims are set to ask for. Default: all of the layout. */
  readonly pool?: PoolBounds | undefined;
  /** The file of an embedded registry. */
  readonly file?: string | undefined;
  /** Whether a registry is named; else it is the default file of this user. */
  readonly named: boolean;
  /** This host's wall clock, Unix ms. */
  readonly now: () => number;
}

/** The share of a pool in use from which on it is time to think of a larger one. */
const crowded = 0.8;
/** How long before a pool is full people want to hear of it, ms. */
const soon = 30 * 24 * 3_600_000;
const pings = 5;
/** What even the quickest answer of a registry may take, ms: each claim and renewal takes a few of them. */
const slow = 250;

const unnamed: CheckResult = {
  check: "hosts",
  status: "warn",
  detail:
    "No registry is named: a worker ID is the end of the host's address, leased in a file that no other host sees. " +
    "Hosts with the same last address bits make the same IDs; name a registry that all of them reach (SNOWLEASE_REGISTRY).",
};

/** Examines what making IDs here rests on, and changes nothing. What cannot be examined is a finding as well: it never rejects. */
export async function examine(patient: ExamineRequest): Promise<readonly CheckResult[]> {
  const { file, named, open, namespace, layout, now } = patient;
  const place = [
    ...(named ? [] : [unnamed]),
    ...(file === undefined ? [] : [await checkFile(file)]),
    await checkSync(),
    checkProcess(),
  ];
  // To open it would make it.
  if (file !== undefined && (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0)
    return [...place, checkEnd(layout ?? defaultLayout, now())];

  const opened = await attempted("registry", open);
  if ("status" in opened) return [opened, ...place];
  const registry = opened.value;
  try {
    const reached = await reach(registry, now);
    if (reached.answer === undefined) return [reached.finding, ...place];
    const { promise, schema } = reached.answer;
    const verified = await attempted("data", async () => registry.verify?.());
    if ("status" in verified) return [verified, reached.finding, ...place];
    const described = await attempted("namespace", () => registry.describe(namespace));
    const about = "status" in described ? [described] : await checkNamespace(patient, registry, described.value);
    const info = "status" in described ? undefined : described.value;
    return [
      reached.finding,
      { check: "promise", status: "ok", detail: promise },
      ...(schema === undefined ? [] : [checkSchema(schema)]),
      checkClock(registry.kind, reached, info?.maxClockSkew ?? defaultLimits.maxClockSkew),
      ...about,
      ...place,
    ];
  } finally {
    await registry.close().catch(() => undefined);
  }
}

function checkSchema(version: NonNullable<Pong["schema"]>): CheckResult {
  return {
    check: "schema",
    status: "ok",
    detail: `The stored schema has version ${version}, which this release knows.`,
  };
}

interface PingResult {
  readonly finding: CheckResult;
  readonly answer?: Pong | undefined;
  /** How far the registry's clock is ahead of this host's, give or take `margin`, ms. */
  readonly ahead: number;
  readonly margin: number;
}

/** Pings a few times: the first ping opens the connection, and the quickest one measures the clocks best. */
async function reach(registry: Registry, now: () => number): Promise<PingResult> {
  const check = "registry";
  let best: { readonly took: number; readonly ahead: number; readonly answer: Pong } | undefined;
  try {
    for (let i = 0; i < pings; i++) {
      const [wall, start] = [now(), performance.now()];
      const answer = await registry.ping();
      const took = performance.now() - start;
      if (took < (best?.took ?? Infinity)) best = { took, ahead: Math.round(answer.clock - wall - took / 2), answer };
    }
  } catch (cause) {
    return { finding: failed(check, cause), ahead: 0, margin: 0 };
  }
  const { took = 0, ahead = 0, answer } = best ?? {};
  const isSlow = took > slow;
  const advice = isSlow ? " Check its load and the network: every claim and renewal waits for it." : "";
  const detail = `The ${registry.kind} registry answers in ${took.toFixed(2)} ms.${advice}`;
  return { finding: { check, status: isSlow ? "warn" : "ok", detail }, answer, ahead, margin: Math.ceil(took / 2) };
}

function checkClock(kind: string, { ahead, margin }: PingResult, maxClockSkew: number): CheckResult {
  const check = "clock";
  if (kind === "sqlite" || kind === "memory") {
    return { check, status: "ok", detail: "The registry uses this host's own clock." };
  }
  const off = Math.abs(ahead);
  const detail = `The registry's clock is ${off} ms ${ahead < 0 ? "behind" : "ahead of"} this host's, give or take ${margin} ms; up to ${maxClockSkew} ms is tolerated.`;
  if (off > maxClockSkew) return { check, status: "fail", detail: `${detail} Correct the wrong clock.` };
  return { check, status: off > maxClockSkew / 2 ? "warn" : "ok", detail };
}

async function checkNamespace(
  { namespace, layout: asked, pool, now }: ExamineRequest,
  registry: Registry,
  info: NamespaceInfo | undefined,
): Promise<readonly CheckResult[]> {
  const check = "namespace";
  if (info === undefined) {
    return [{ check, ...absence(registry.kind, namespace) }, checkEnd(asked ?? defaultLayout, now())];
  }
  const layout = Layout.parse(info.layout);
  const limits = `\`${namespace}\` has the layout ${info.layout}, windows up to ${info.maxWindow} ms, clocks within ${info.maxClockSkew} ms.`;
  const mismatch = `\`${namespace}\` has the layout ${info.layout}, but claims here ask for ${asked?.fingerprint} and will be refused; set the namespace's layout.`;
  return [
    asked === undefined || asked.fingerprint === info.layout
      ? { check, status: "ok", detail: limits }
      : { check, status: "fail", detail: mismatch },
    await checkRenewal(registry, namespace, { clock: now(), window: 4 * layout.tick }),
    checkEnd(layout, now()),
    await checkPool(registry, namespace, pool ?? layout.pool, now()),
  ];
}

/** The meaning of an absent namespace: Redis cannot tell a forgotten one from a new one. */
function absence(kind: string, namespace: string): Omit<CheckResult, "check"> {
  const absent = `\`${namespace}\` does not exist yet`;
  switch (kind) {
    case "redis":
      return {
        status: "warn",
        detail: `${absent}, or was forgotten: a first claim starts a quarantine. Only if it never existed, make it without one: \`snowlease init --new\`.`,
      };
    case "memory":
    case "sqlite":
    case "zookeeper":
      return { status: "ok", detail: `${absent}; \`snowlease init\` or the first claim makes it.` };
    default:
      return { status: "ok", detail: `${absent}; \`snowlease init\` makes it.` };
  }
}

/**
 * Rehearses a claim, and renews a claim that does not exist: an obstacle to real ones shows itself,
 * and nothing changes.
 */
async function checkRenewal(
  registry: Registry,
  namespace: string,
  terms: { readonly clock: number; readonly window: number },
): Promise<CheckResult> {
  const check = "renewal";
  const request = { namespace, workerId: 0, fence: 0, token: "0".repeat(32), ...terms };
  const answer = await attempted(check, async () => {
    await registry.rehearse?.(namespace);
    return askInTime(systemClock, request, (request) => registry.renew(request));
  });
  return "status" in answer ? answer : { check, status: "ok", detail: "Claims and renewals are permitted." };
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
  const counted = await attempted(check, async () => {
    while (!reader.isDone) {
      for (const record of await reader.page()) {
        growth.add(record);
        countRecord(counts, record);
        if (record.state === "free" && record.marked === true) marked++;
      }
    }
    return { forecast: await growth.forecast(registry, namespace, size - takenOf(counts)) };
  });
  if ("status" in counted) return counted;
  const { forecast } = counted.value;
  const sum = takenOf(counts);
  const kinds = takenStates.map((state) => `${counts[state]} ${state}`);
  const outlook = forecast === undefined ? "" : ` ${forecastText(forecast, now)}`;
  // Java processes begin at 0: they do not reach a pool that begins above it.
  const javaSees =
    marked === 0 || pool.first > 0
      ? ""
      : ` ${marked} free ones still look taken to Java processes of westid; with \`beside=westid\` in the registry URL, claims release them.`;
  const detail = `${sum} of the ${size} worker IDs ${formatPool(pool)} are taken: ${kinds.join(", ")}.${javaSees}${outlook}`;
  const isFullSoon = (forecast?.fullAt ?? Infinity) - now < soon;
  if (sum < size * crowded && !isFullSoon) return { check, status: "ok", detail };
  return { check, status: sum < size ? "warn" : "fail", detail: `${detail} Use a larger pool, or another namespace.` };
}
