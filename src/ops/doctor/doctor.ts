import { constants, existsSync, readlinkSync, statSync } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { performance } from "node:perf_hooks";
import { systemClock } from "../../lease/clock.ts";
import { asSnowleaseError } from "../../id/errors.ts";
import { askInTime } from "../../lease/late-request.ts";
import { defaultLayout, Layout } from "../../id/layout.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { formatPool } from "../../id/notation.ts";
import { defaultLimits, type NamespaceInfo, type Pong, type Registry } from "../../rule/registry.ts";
import { forecastText, Growth, layoutEnd } from "../forecast.ts";
import { clockSync } from "./clock-sync.ts";
import { exposedFiles, exposureText } from "../../registries/sqlite/file-mode.ts";
import { allUnused, countRecord, takenOf, takenStates } from "../pool/pool-counts.ts";
import { PoolReader } from "../pool/pool-reader.ts";

/** What one check found. `fail`: IDs cannot be made, or are in danger; `warn`: will be, or may be; `unknown`: nobody here can tell. */
export interface CheckResult {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail" | "unknown";
  readonly detail: string;
}

/** What to examine. */
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

/** The first PID namespace of a machine, in every Linux (PROC_PID_INIT_INO). */
const firstPidNamespace = "pid:[4026531836]";

/** File systems on which a registry's file is not what it promises to be, by their number in statfs(2). */
const unfit: ReadonlyMap<number, string> = new Map([
  [0x01021994, "in memory (tmpfs): it is lost when the machine restarts"],
  [0x794c7630, "in a container's own layer (overlayfs): it is lost with the container; keep it on a volume"],
  [0x6969, "on NFS: its locks are unreliable; keep it on a local disk, or share a daemon"],
  [0xff534d42, "on CIFS: its locks are unreliable; keep it on a local disk, or share a daemon"],
  [0xfe534d42, "on SMB: its locks are unreliable; keep it on a local disk, or share a daemon"],
]);

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

  const opened = await failing("registry", open);
  if ("status" in opened) return [opened, ...place];
  const registry = opened.value;
  try {
    const reached = await reach(registry, now);
    if (reached.answer === undefined) return [reached.finding, ...place];
    const { promise, schema } = reached.answer;
    const verified = await failing("data", async () => registry.verify?.());
    if ("status" in verified) return [verified, reached.finding, ...place];
    const described = await failing("namespace", () => registry.describe(namespace));
    const about = "status" in described ? [described] : await checkNamespace(patient, registry, described.value);
    const info = "status" in described ? undefined : described.value;
    return [
      reached.finding,
      { check: "promise", status: "ok", detail: promise },
      ...(schema === undefined
        ? []
        : [
            {
              check: "schema",
              status: "ok",
              detail: `What is stored has version ${schema}, which this version knows.`,
            } as const,
          ]),
      checkClock(registry.kind, reached, info?.maxClockSkew ?? defaultLimits.maxClockSkew),
      ...about,
      ...place,
    ];
  } finally {
    await registry.close().catch(() => undefined);
  }
}

interface PingResult {
  readonly finding: CheckResult;
  readonly answer?: Pong | undefined;
  /** How far the registry's clock is ahead of this host's, give or take `margin`, ms. */
  readonly ahead: number;
  readonly margin: number;
}

/** Asks a few times: the first answer opens the connection, and the quickest one tells the clocks apart best. */
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

/** What a namespace that is not there means, which a store that forgets cannot tell from one that never was. */
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
 * Rehearses a claim, and asks to renew one that nobody has: whatever would keep a real one from being granted or renewed shows itself,
 * and nothing changes.
 */
async function checkRenewal(
  registry: Registry,
  namespace: string,
  terms: { readonly clock: number; readonly window: number },
): Promise<CheckResult> {
  const check = "renewal";
  const request = { namespace, workerId: 0, fence: 0, token: "0".repeat(32), ...terms };
  const answer = await failing(check, async () => {
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
  const counted = await failing(check, async () => {
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

async function checkFile(file: string): Promise<CheckResult> {
  const check = "file";
  const present = existsSync(file);
  try {
    if (present) await access(file, constants.R_OK | constants.W_OK);
    await access(nearestFolder(file), constants.W_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    return {
      check,
      status: "fail",
      detail: `${file} and its folder cannot be written (${code}); correct their permissions.`,
    };
  }
  const { type } = await statfs(nearestFolder(file));
  const problem = unfit.get(type);
  if (problem !== undefined) return { check, status: "warn", detail: `The registry's file ${file} is ${problem}.` };
  const exposed = exposedFiles(file);
  if (exposed.length > 0) return { check, status: "warn", detail: exposureText(exposed) };
  return {
    check,
    status: "ok",
    detail: present ? `The registry is ${file}.` : `${file} does not exist yet; the first claim makes it.`,
  };
}

/** The folder of a file, or the nearest one above it that exists. */
function nearestFolder(file: string): string {
  let folder = dirname(resolve(file));
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

async function checkSync(): Promise<CheckResult> {
  const check = "clock-sync";
  const sync = await clockSync();
  if (sync === undefined) {
    const detail = "Neither timedatectl nor chronyc tells here whether this host's clock is synchronized.";
    return { check, status: "unknown", detail };
  }
  const { synchronized, source } = sync;
  if (synchronized) return { check, status: "ok", detail: `This host's clock is synchronized (${source}).` };
  const detail = `This host's clock is not synchronized (${source}): after a large drift from the registry's clock, claims and renewals are refused; run an NTP client.`;
  return { check, status: "warn", detail };
}

function checkProcess(): CheckResult {
  const check = "process";
  const own = process.platform === "linux" ? pidNamespace() : firstPidNamespace;
  if (own === undefined) {
    return { check, status: "unknown", detail: "/proc does not tell whether process IDs here are those of the host." };
  }
  const detail =
    own === firstPidNamespace
      ? "The registry shows the host's own process IDs."
      : `This process has its own PID namespace (${own}), as in a container: outside of it, its process IDs in the registry have no meaning.`;
  return { check, status: "ok", detail };
}

function pidNamespace(): string | undefined {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return undefined;
  }
}

async function failing<Value>(
  check: string,
  run: () => Promise<Value>,
): Promise<{ readonly value: Value } | CheckResult> {
  try {
    return { value: await run() };
  } catch (cause) {
    return failed(check, cause);
  }
}

function failed(check: string, cause: unknown): CheckResult {
  const { code, message } = asSnowleaseError(cause);
  return { check, status: "fail", detail: `${code}: ${message}` };
}
