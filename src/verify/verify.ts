import { randomBytes, randomInt } from "node:crypto";
import type { Capability } from "../conformance.ts";
import { configInvalid, type ErrorCode, errorCodes, isSnowleaseError, SnowleaseError } from "../id/errors.ts";
import { defaultLayout } from "../id/layout.ts";
import type { Pong, Registry } from "../rule/registry.ts";
import { openRegistry, type RegistryAddress, storeOf, storeOfRegistry } from "../registries/index.ts";
import type { HolderOptions } from "../testing/holder.ts";
import { type RestartOutcome, runRestarts } from "../testing/restart-matrix.ts";
import { type ContractReport, verifyContract } from "./contract.ts";
import { mostLinks, Nemesis, type NemesisReport } from "./nemesis.ts";
import { OwnNamespaces, type Removal, verifiedLayout } from "./namespaces.ts";
import { type VerifyPart, verifyParts } from "./parts.ts";
import { Random } from "./random.ts";
import { runCommand } from "./restart-command.ts";
import { relayed, withoutRelay } from "./relay.ts";

/** What to verify, and how. */
export interface VerifyRequest {
  /** The registry URL, for other processes. */
  readonly url: string;
  /** The same URL, parsed. */
  readonly address: RegistryAddress;
  /** For a daemon whose URL has no token. */
  readonly token?: string | undefined;
  /** A shell command that restarts the server. */
  readonly restart?: string | undefined;
  /** A module that makes IDs in place of Snowlease. It gets `{ registry, namespace }`. The contract is left out then. */
  readonly module?: string | undefined;
  /** The codes of the module's refusals. Default: the codes of Snowlease's errors. */
  readonly refusals?: readonly string[] | undefined;
  /** The parts to run. */
  readonly parts: readonly VerifyPart[];
  /** How long the nemesis goes on, ms. */
  readonly time: number;
  /** From 0 to 2^32 - 1. Default: a random number. */
  readonly seed?: number | undefined;
  /** Ends the verification early. It still removes what it made. */
  readonly signal: AbortSignal;
  readonly tell: (phase: string, detail: string, share?: number) => void;
}

/** The result of a verification. */
export interface VerifyReport {
  readonly kind: string;
  /** The kind of the store behind a daemon. */
  readonly behind?: string | undefined;
  readonly durability: string;
  /** How far the registry's clock is ahead of this host's, ms. */
  readonly ahead: number;
  readonly seed: number;
  readonly contract?: ContractReport | undefined;
  readonly restarts?: Omit<RestartOutcome, "left"> | undefined;
  readonly nemesis?: NemesisReport | undefined;
  readonly removal: Removal;
  /** The checks and parts that were not run, each with the reason. */
  readonly notRun: readonly string[];
  /** The problems that were found; empty if there are none. */
  readonly failures: readonly string[];
  readonly isInterrupted: boolean;
}

/** Deadline of one operation of this process, ms. A slow answer is no fault. */
const operationTimeout = 20_000;
/** Two clocks with a smaller difference count as the same, ms. */
const sameClock = 50;

/** The longest wait of a check, ms. A Redis behind a daemon waits for an old primary. */
const longestWait = 60_000;
/**
 * The window of the holders, and the longest window of their namespaces, ms. It keeps the quarantine short with which some stores begin
 * after a restart.
 */
const briefWindow = 2000;

/** Why a claim is refused if `init` did not make its namespace. */
const uncreated: Readonly<Partial<Record<ErrorCode, string>>> = {
  NOT_FOUND: "only `init` makes a namespace here",
  SCHEMA_INCOMPATIBLE: "only `init` makes a namespace here",
  QUARANTINE: "a claim makes a namespace in quarantine here",
};

/** A request, with what all parts of the run need. */
interface Run extends VerifyRequest {
  readonly seed: number;
  readonly registry: Registry;
  readonly namespaces: OwnNamespaces;
}

/**
 * Tests whether an ID comes twice on a registry. It runs the registry contract, the restart matrix, and a nemesis that strikes processes
 * which make IDs. It uses namespaces of its own, and removes them.
 * @throws SnowleaseError with which the registry refuses the first namespace. Then nothing is left either, if the registry allows the
 * removal.
 */
export async function verify(request: VerifyRequest): Promise<VerifyReport> {
  const { seed = randomInt(2 ** 32), tell } = request;
  const at = withoutLag(request);
  const namespaces = new OwnNamespaces(`verify_${randomBytes(4).toString("hex")}`);
  const registry = await openRegistry(at.address, { operationTimeout });
  try {
    if (registry.remove === undefined) {
      throw configInvalid(
        `Expected a registry that can remove namespaces, got one of the kind \`${registry.kind}\`; each check makes one, and all of them would be left.`,
      );
    }
    const remove = (): Promise<Removal> =>
      namespaces.removeAll(registry, (share) => tell("removing", "what was made", share));
    let report: Omit<VerifyReport, "removal">;
    try {
      report = await tryAll({ ...request, ...at, seed, registry, namespaces });
    } catch (error) {
      throw withLeft(error, await remove());
    }
    const removal = await remove();
    const left = leftText(removal);
    return { ...report, failures: [...report.failures, ...(left === undefined ? [] : [left])], removal };
  } finally {
    await registry.close().catch(() => undefined);
  }
}

/** Turns off the wait for an old primary of a Redis, unless the URL names one. A check that waits for a quarantine has no time for it. */
function withoutLag({ url, address }: VerifyRequest): Pick<VerifyRequest, "url" | "address"> {
  if (storeOf(address).parameters?.["maxLag"] === undefined || !("settings" in address)) return { url, address };
  if (address.settings["maxLag"] !== undefined) return { url, address };
  const settings = { ...address.settings, maxLag: "0" };
  return {
    url: `${url}${url.includes("?") ? "&" : "?"}maxLag=0`,
    address: { ...address, settings },
  };
}

/** The error, with a text about what is left of the verification. */
function withLeft(error: unknown, removal: Removal): unknown {
  const left = leftText(removal);
  if (left === undefined || !isSnowleaseError(error)) return error;
  return new SnowleaseError(error.code, `${error.message} Besides, ${left}`, error.details);
}

/** Describes the namespaces that are left; undefined if there are none. */
function leftText({ left }: Removal): string | undefined {
  const [first] = left;
  return first && `${left.length} namespaces of this run are left, such as ${first.namespace}: ${first.reason}`;
}

async function tryAll(run: Run): Promise<Omit<VerifyReport, "removal">> {
  const { registry, seed, signal, module, restart } = run;
  run.tell("looking", run.address.redacted);
  const pong = await registry.ping();
  const ahead = pong.clock - Date.now();
  const lacks = await lacksOf(run, pong);
  let isRefused = false;
  const takes = (part: VerifyPart): boolean => run.parts.includes(part) && !signal.aborted && !isRefused;
  const failures: string[] = [];
  /** Runs a part. An error is a failure of this part, and the results of the other parts still count. */
  async function tried<Found>(part: VerifyPart, work: () => Promise<Found>): Promise<Found | undefined> {
    if (!takes(part)) return undefined;
    try {
      return await work();
    } catch (error) {
      failures.push(`${part}: ${(error as Error).message}`);
      return undefined;
    }
  }
  const contract = await tried("contract", async () =>
    module === undefined ? tryContract(run, lacks, ahead) : undefined,
  );
  failures.push(...(contract?.failed ?? []).map(({ check, reason }) => `contract: ${check}: ${reason}`));
  if (contract?.refused !== undefined) {
    isRefused = true;
    failures.push(`contract: the registry refused check after check: ${contract.refused}`);
  }
  const restarts = await tried("restarts", () => tryRestarts(run));
  failures.push(...(restarts?.failures ?? []).map((failure) => `restarts: ${failure}`));
  const withoutNetwork = await withoutRelay(run.address, operationTimeout);
  const nemesis = await tried("nemesis", () => tryNemesis(run, withoutNetwork === undefined));
  failures.push(...flawsOf(nemesis, signal).map((flaw) => `nemesis: ${flaw}`));
  const notRun = [
    ...verifyParts.filter((part) => !run.parts.includes(part)).map((part) => `${part}: it was left out by --only`),
    ...(contract === undefined && module !== undefined ? ["contract: the IDs are those of a module"] : []),
    ...Object.entries(contract?.skipped ?? {}).map(([reason, checks]) => {
      return `contract, ${checks.length} ${checks.length === 1 ? "check" : "checks"}: ${reason}`;
    }),
    ...(restarts !== undefined && restart === undefined ? ["restarts of the server: no --restart was given"] : []),
    ...(nemesis !== undefined && withoutNetwork !== undefined ? [`partitions: ${withoutNetwork}`] : []),
    ...(nemesis !== undefined && withoutNetwork === undefined && nemesis.connections === 0
      ? ["partitions: no process connected through the relay of its own"]
      : []),
    ...(process.platform === "win32" ? ["processes that are stopped and resumed: Windows has no signal for it"] : []),
    ...(signal.aborted ? ["the rest: it was interrupted"] : []),
    ...(isRefused ? ["the rest: the registry refused check after check"] : []),
  ];
  const { kind } = registry;
  const { durability, behind } = pong;
  return {
    kind,
    behind,
    durability,
    ahead,
    seed,
    contract,
    restarts,
    nemesis,
    notRun,
    failures,
    isInterrupted: signal.aborted,
  };
}

function flawsOf(nemesis: NemesisReport | undefined, { aborted }: AbortSignal): readonly string[] {
  if (nemesis === undefined) return [];
  const { ids, makers, duplicates, first, reasons, failures } = nemesis;
  const twice = `${duplicates} of ${ids} IDs were made more than once; the first one is ${first}`;
  const few = `${makers} of its processes made an ID: ${Object.values(reasons).join("; ")}`;
  return [...(duplicates > 0 ? [twice] : []), ...failures, ...(makers < 2 && !aborted ? [few] : [])];
}

/**
 * The capabilities of the contract that the registry lacks. To find them, it makes a namespace, claims in it, and removes it. So a
 * refusal by the registry is reported before other tests begin.
 */
async function lacksOf(
  { registry, namespaces }: Run,
  { clock, behind }: Pong,
): Promise<Readonly<Partial<Record<Capability, string>>>> {
  const lacks: Partial<Record<Capability, string>> = {};
  for (const kind of [registry.kind, behind ?? ""]) Object.assign(lacks, storeOfRegistry(kind)?.lacks);
  if (registry.separate === undefined) lacks.copies = "an operator asks the store itself";
  await claimOnce(registry, await namespaces.make(registry), clock);
  await namespaces.removeLast(registry);
  try {
    await claimOnce(registry, namespaces.next(), clock);
  } catch (error) {
    const why = isSnowleaseError(error) ? uncreated[error.code] : undefined;
    if (why === undefined) throw error;
    lacks["creates-namespaces"] = why;
  }
  return lacks;
}

/** @throws SnowleaseError */
async function claimOnce(registry: Registry, namespace: string, clock: number): Promise<void> {
  const token = randomBytes(16).toString("hex");
  const holder = { host: "verify", ip: "127.0.0.1", pid: process.pid, instance: "" };
  const pool = { first: 0, last: 0 };
  const layout = verifiedLayout;
  const claim = await registry.claim({ namespace, token, pool, holder, clock, window: 1000, layout });
  if (claim.outcome !== "granted") return;
  const { workerId, fence, from, receipt } = claim;
  await registry.release({ namespace, workerId, fence, token, clock, receipt, used: { until: from } });
}

function tryContract(
  { namespaces, address, signal, tell }: Run,
  lacks: Readonly<Partial<Record<Capability, string>>>,
  ahead: number,
): Promise<ContractReport> {
  const offset = Math.abs(ahead) < sameClock ? 0 : ahead;
  const open = (): Promise<Registry> => openRegistry(address, { operationTimeout });
  const subject = { namespaces, lacks, open, now: () => Date.now() + offset, longestWait };
  return verifyContract(subject, { signal, tell: (check, share) => tell("contract", check, share) });
}

async function tryRestarts(run: Run): Promise<VerifyReport["restarts"]> {
  const { restart, refusals, signal, tell } = run;
  const options = {
    ...(await holdersOf(run, "0-1")),
    ...(refusals !== undefined && { refusals }),
    ...(restart !== undefined && { restart: async () => (signal.aborted ? undefined : runCommand(restart)) }),
  };
  // The matrix uses a namespace of this run, which the run removes at its end.
  const { left: _, ...outcome } = await runRestarts(options, {
    signal,
    tell: (title, share) => tell("restarts", title, share),
  });
  return outcome;
}

async function tryNemesis(run: Run, hasNetwork: boolean): Promise<NemesisReport> {
  const { url, address, time, seed, refusals = errorCodes, signal, tell } = run;
  const options = await holdersOf(run, "0-3");
  const links = hasNetwork ? await Promise.all(Array.from({ length: mostLinks }, () => relayed(url, address))) : [];
  const random = new Random(seed);
  try {
    const told = (kind: string, share: number): void => tell("nemesis", kind, share);
    return await new Nemesis({ options, links, refusals, random, time, signal, tell: told }).run();
  } finally {
    for (const { relays } of links) for (const relay of relays) relay.close();
  }
}

/** Makes a new namespace, and returns options for holders in it. @throws SnowleaseError */
async function holdersOf({ url, token, module, registry, namespaces }: Run, pool: string): Promise<HolderOptions> {
  const namespace = namespaces.next();
  const login = token === undefined ? {} : { token };
  const layout = defaultLayout.fingerprint;
  await registry.init({ namespace, layout, maxWindow: briefWindow, new: true });
  if (module !== undefined) return { module, options: { ...login, registry: url, namespace } };
  return {
    registry: url,
    options: {
      ...login,
      window: briefWindow,
      maxWindow: briefWindow,
      namespace,
      pool,
      claimTimeout: "20s",
      operationTimeout: "2s",
    },
  };
}
