import { setTimeout as sleep } from "node:timers/promises";
import { conformance, type ConformanceResult, runCheck } from "../conformance/run.ts";
import { defaultLayout } from "../id/layout.ts";
import { isSnowleaseError, SnowleaseError } from "../id/errors.ts";
import { openRegistry, parseAddress, type RegistryAddress, storeOf } from "../registries/index.ts";
import { cannotDrop, trialPrefix } from "../rule/drop.ts";
import type { Pong, Registry } from "../rule/registry.ts";
import { cutTarget, openWay } from "./cut.ts";
import { guarded, type ProofTrail } from "./guard.ts";
import { lacksOf } from "./lacks.ts";
import { nemesis, type NemesisReport } from "./nemesis.ts";
import { restarts } from "./restarts.ts";
import { runRestart } from "./run-restarts.ts";
import type { ProofSubject } from "./subject.ts";

/** What to prove, and where. */
export interface ProofOptions {
  /** The registry's URL, with its secrets. */
  readonly url: string;
  readonly operationTimeout: number;
  /** What a daemon asks for. */
  readonly token?: string | undefined;
  /** How long the nemesis strikes. */
  readonly minutes: number;
  readonly seed: number;
  /** Ends the server, and starts it again. */
  restart?(): Promise<void>;
  /** Ends the proof early: its namespaces are dropped all the same. */
  readonly signal: AbortSignal;
  /** Told before the first namespace is made. */
  begun(proof: ProofBeginning): Promise<void>;
  /** Told before each check. */
  progress(part: ProofPart, title: string, share: number): void;
}

type ProofPart = "contract" | "restarts" | "nemesis";

/** What is known before the proof begins. */
export interface ProofBeginning extends Pick<Pong, "durability" | "schema"> {
  readonly kind: string;
  readonly run: string;
}

/** What came of a proof. */
export interface ProofResults {
  readonly contract: readonly ConformanceResult[];
  readonly restarts: readonly ConformanceResult[];
  /** A text says why it was not run. */
  readonly nemesis: NemesisReport | string;
  /** Why no connection was cut; undefined where some were. */
  readonly uncut: string | undefined;
  /** Calls of this process. */
  readonly calls: number;
  /** Namespaces that could not be dropped, and why. */
  readonly left: readonly string[];
  readonly whyLeft: string | undefined;
}

/** Letters and digits of the name of a run, and of the number of a namespace in it. */
const [runLength, numberLength] = [5, 3];
/** Namespaces of one run, at most: two for each check. */
export const mostNamespaces: number = conformance.length + restarts.length + 2;

/** A random name for a run. */
function newRun(): string {
  const digits = [...crypto.getRandomValues(new Uint8Array(runLength))];
  return digits.map((each) => (each % 36).toString(36)).join("");
}

export function isRun(text: string): boolean {
  return new RegExp(`^[0-9a-z]{${runLength}}$`).test(text);
}

/** The namespace of this number of a run. A check may make another one, with `_b` behind it. */
export function namespaceOf(run: string, number: number): string {
  return `${trialPrefix}${run}${number.toString(36).padStart(numberLength, "0")}`;
}

/** Why a proof lists no namespaces. */
const notOurs = "a list is of all namespaces of the store, and a proof touches its own alone";

/** How long a check that was ended early is waited for, ms: its next call is refused. */
const lastWait = 5000;

/** Drops all namespaces of a run that was killed. Returns how many of them still existed. */
export async function dropRun(registry: Registry, run: string, progress: (share: number) => void): Promise<number> {
  if (registry.dropNamespace === undefined) throw cannotDrop(registry.kind);
  let found = 0;
  for (let number = 0; number < mostNamespaces; number++) {
    progress(number / mostNamespaces);
    for (const namespace of [namespaceOf(run, number), `${namespaceOf(run, number)}_b`]) {
      // Not only those that are there: of one that was being dropped, something may be left.
      if (await exists(registry, namespace)) found++;
      await registry.dropNamespace({ namespace, id: "", final: true });
    }
  }
  return found;
}

async function exists(registry: Registry, namespace: string): Promise<boolean> {
  try {
    return (await registry.describe(namespace)) !== undefined;
  } catch (error) {
    if (isSnowleaseError(error, "QUARANTINE")) return true;
    throw error;
  }
}

/** The URL of a Redis, of which a quarantine does not wait for an old primary: nothing but trials rests on it. */
function withoutLag(url: string): string {
  const address = parseAddress(url);
  if (address.kind !== "redis" || "maxLag" in address.settings) return url;
  return `${url}${url.includes("?") ? "&" : "?"}maxLag=0`;
}

/** Runs the contract, the restart matrix and a nemesis in namespaces of its own, which it drops. */
export async function prove(options: ProofOptions): Promise<ProofResults> {
  const { minutes, seed, signal, restart, progress } = options;
  // A quarantine that a check waits for need not wait for an old primary.
  const url = withoutLag(options.url);
  const address = parseAddress(url);
  const trail: ProofTrail = { calls: 0, namespaces: new Set(), hasEnded: false };
  const run = newRun();
  const environment = options.token === undefined ? undefined : { SNOWLEASE_TOKEN: options.token };
  let number = 0;
  let whyLeft: string | undefined;

  const operator = await open();
  const results: { contract: ConformanceResult[]; restarts: ConformanceResult[] } = { contract: [], restarts: [] };
  let struck: NemesisReport | string = "the proof was ended before";
  const target = cutTarget(address);
  try {
    if (operator.dropNamespace === undefined) throw cannotDrop(operator.kind);
    const { durability, schema } = await operator.ping();
    await options.begun({ kind: operator.kind, run, durability, schema });
    const lacks = { ...lacksOf(operator.kind), ...(await lackOfRights()), "lists-namespaces": notOurs };

    for (const [i, check] of conformance.entries()) {
      if (signal.aborted) break;
      progress("contract", check.title, i / conformance.length);
      const work = runCheck(check, async () => {
        const namespace = nextName();
        return { namespace, open, pause: sleep, now: Date.now, lacks, close: () => drop(namespace) };
      });
      const result = await orAborted(work);
      if (result !== undefined) results.contract.push(result);
    }
    for (const [i, each] of restarts.entries()) {
      if (signal.aborted) break;
      progress("restarts", each.title, i / restarts.length);
      const result = await orAborted(runRestart(each, () => made(restart)));
      if (result !== undefined) results.restarts.push(result);
    }
    if (!signal.aborted) {
      progress("nemesis", `${minutes} min`, 0);
      const way = typeof target === "string" ? undefined : await openWay(url, target);
      const subject = await made();
      try {
        struck = await nemesis(subject, { minutes, seed, way, signal });
      } finally {
        await way?.close();
        await subject.close?.();
      }
    }
  } finally {
    trail.hasEnded = true;
    await dropAll();
    await operator.close().catch(() => undefined);
  }
  const left = [...trail.namespaces];
  const uncut = typeof target === "string" ? target : undefined;
  return { ...results, nemesis: struck, uncut, calls: trail.calls, left, whyLeft };

  async function open(): Promise<Registry> {
    const { operationTimeout, token } = options;
    const shown = { ...address, ...(token !== undefined && { token }) } as RegistryAddress;
    return guarded(await openRegistry(shown, { operationTimeout }), trail);
  }

  function nextName(): string {
    return namespaceOf(run, number++);
  }

  /** A namespace for processes. After a restart of its server, a store that may have forgotten windows waits for short ones. */
  async function made(restarting?: () => Promise<void>): Promise<ProofSubject> {
    const namespace = nextName();
    const layout = defaultLayout.fingerprint;
    await operator.init({ namespace, layout, new: true, maxWindow: 5000 });
    const { usesHostClock } = storeOf(address);
    return {
      url,
      namespace,
      registry: operator,
      environment,
      usesHostClock,
      ...(restarting && { restart: restarting }),
      close: () => drop(namespace),
    };
  }

  /** Tries what all else rests on: to make a namespace. What a claim does in one that is missing depends on a daemon's store. */
  async function lackOfRights(): Promise<{ "creates-namespaces"?: string }> {
    const [namespace, missing] = [nextName(), nextName()];
    try {
      await operator.init({ namespace, layout: defaultLayout.fingerprint, new: true });
    } catch (error) {
      if (!isSnowleaseError(error)) throw error;
      const advice =
        "this command makes and drops namespaces, so it needs the rights of an operator; see docs/operations.md";
      throw new SnowleaseError(error.code, `${error.message.replace(/\.$/, "")}; ${advice}.`, error.details, {
        cause: error,
      });
    } finally {
      await drop(namespace).catch(() => undefined);
    }
    if (operator.kind !== "daemon") return {};
    const holder = { host: "proof", ip: "", pid: process.pid, instance: "" };
    const token = crypto.randomUUID().replaceAll("-", "");
    const claim = { namespace: missing, token, pool: { first: 0, last: 0 }, holder, clock: Date.now(), window: 1000 };
    try {
      await operator.claim({ ...claim, layout: defaultLayout.fingerprint });
      return {};
    } catch (error) {
      return { "creates-namespaces": error instanceof Error ? error.message : String(error) };
    } finally {
      await drop(missing).catch(() => undefined);
    }
  }

  /** Where a namespace cannot be dropped now, it is tried once more in the end. */
  async function drop(namespace: string): Promise<void> {
    for (const each of [namespace, `${namespace}_b`]) {
      if (!trail.namespaces.has(each)) continue;
      try {
        await operator.dropNamespace?.({ namespace: each, id: "", final: true });
        trail.namespaces.delete(each);
      } catch (error) {
        whyLeft = error instanceof Error ? error.message : String(error);
      }
    }
  }

  async function dropAll(): Promise<void> {
    for (const each of trail.namespaces) await drop(each.replace(/_b$/, ""));
  }

  /** Undefined once the proof is ended: what still runs is answered no more. */
  async function orAborted<Result>(work: Promise<Result>): Promise<Result | undefined> {
    let stop = (): void => undefined;
    const aborted = new Promise<undefined>((resolve) => (stop = () => resolve(undefined)));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    try {
      const result = await Promise.race([work, aborted]);
      if (result !== undefined) return result;
      trail.hasEnded = true;
      await Promise.race([work.catch(() => undefined), sleep(lastWait)]);
      return undefined;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }
}
