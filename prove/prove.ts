import { chmodSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultLayout } from "../src/id/layout.ts";
import { type HeldIntervals, readHeldIntervals } from "../src/ops/audit/interval-set.ts";
import { clocksMissing } from "../test/support/wall-clock.ts";
import { check, type Verdict } from "./checker.ts";
import { type ClientProgram, Crew } from "./crew.ts";
import { Nemesis } from "./nemesis.ts";
import { type FaultKind, faultKinds, plan } from "./plan.ts";
import { stuckIn } from "./pool.ts";
import { limits, namespace, type Scene } from "./scene.ts";
import type { Stage } from "./scenes.ts";

/** What a run is to be. */
export interface RunOptions {
  readonly seed: number;
  readonly minutes: number;
  /** How many holders there are at any time. */
  readonly holders: number;
  /** Faults of holders and their networks a second. */
  readonly rate: number;
  /** Whether the store is put back to older copies of itself meanwhile. */
  readonly restores?: boolean | undefined;
  /** Whether holders are copied meanwhile. */
  readonly copies?: boolean | undefined;
  /** Whether an operator does something to the registry meanwhile. */
  readonly operators?: boolean | undefined;
  /** Another maker beside holder.mjs than the library as it is. */
  readonly maker?: string | undefined;
  /** Programs in other languages: the holders take turns in being one of Node's, or one of these. */
  readonly clients?: readonly ClientProgram[] | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** How far a run is. */
export interface Progress {
  readonly phase: "faults" | "pool" | "check";
  readonly ids: number;
  readonly faults: number;
  /** ms since the faults began. */
  readonly elapsed: number;
}

/** What a run came to. */
export interface Outcome extends Verdict {
  readonly faults: ReadonlyMap<FaultKind, number>;
  /** How many IDs the holders of each language made. */
  readonly languages: ReadonlyMap<string, number>;
  /** Worker IDs that no claim got when all was over, and why not. */
  readonly stuck: readonly string[];
  /** Holders that ended by themselves, and their last words. */
  readonly crashes: readonly string[];
  /** What an operator was told for which nothing was the reason. */
  readonly troubles: readonly string[];
  /** The logs; empty where nothing is wrong. */
  readonly folder: string;
}

const window = 1000;
const progressEvery = 500;

/** Whether something is wrong that must never be. */
export function isFlawed({ flaws, stuck, crashes, troubles }: Outcome): boolean {
  return Object.values(flaws).some((count) => count > 0) || [...stuck, ...crashes, ...troubles].length > 0;
}

/** Puts holders on a registry under fire, and holds what they made against the rule. */
export async function prove(stage: Stage, options: RunOptions): Promise<Outcome> {
  const { holders, restores = false, copies = false, maker = restores || copies ? "recorded" : "leased" } = options;
  const folder = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
  chmodSync(folder, 0o755);
  const clock = ownClock();
  // One worker ID too few: one place always waits for the first that comes free, and takes it the moment its window has passed. More of them
  // are faster than the holders that an older copy does not know.
  const waiting = restores ? Math.ceil(holders / 3) : 1;
  const pool = { first: 0, last: holders - 1 - waiting };
  const poolText = `${pool.first}-${pool.last}`;
  const programs = [undefined, ...(options.clients ?? [])];
  const scene = await stage.start(holders, folder, poolText);
  const crew = new Crew({
    size: holders,
    maker,
    folder,
    clientOf: (holder) => programs[holder % programs.length],
    optionsOf: (holder) => ({
      registry: scene.url(holder),
      namespace,
      pool: poolText,
      window,
      operationTimeout: 1000,
      maxWait: 200,
      host: `machine-${holder}`,
      // One in four of Node's goes ahead of the clock; with holders in three other languages, every other one.
      mode:
        holder % (programs.length === 1 ? 4 : 2 * programs.length) === (programs.length === 1 ? 3 : 0)
          ? "lead"
          : "wall",
    }),
  });
  let flawed = true;
  try {
    const faults = await underFire(scene, crew, options, holders - waiting);
    options.onProgress?.({ ...faults, phase: "pool" });
    const moved = ownClock() - clock;
    const isTold = Math.abs(moved) <= limits.maxClockSkew;
    if (!isTold) console.error(`SKIPPED: whether the pool heals. This machine's own clock was set by ${moved} ms.`);
    const stuck = isTold ? await stuckIn(scene.registry, pool, scene.ahead) : [];
    options.onProgress?.({ ...faults, phase: "check" });
    // A store that was put back has forgotten some of its history.
    const history = restores ? undefined : recordOf(scene);
    const { calls, prunedBefore, troubles } = faults.operator;
    const verdict = await check(crew.logs, defaultLayout, history, faults.incidents, { calls, prunedBefore });
    const languages = new Map([...crew.logsByLanguage].map(([language, logs]) => [language, idsIn(logs)]));
    const outcome = { ...verdict, languages, faults: faults.done, stuck, crashes: crew.crashes, troubles, folder };
    flawed = isFlawed(outcome);
    return outcome;
  } finally {
    await crew.kill();
    await scene.remove();
    if (!flawed) rmSync(folder, { recursive: true });
  }
}

async function underFire(
  scene: Scene,
  crew: Crew,
  { seed, minutes, holders, rate, restores = false, copies = false, operators = false, onProgress }: RunOptions,
  atWork: number,
): Promise<Omit<Progress, "phase"> & Pick<Nemesis, "done" | "incidents" | "operator">> {
  const duration = minutes * 60_000;
  const { links, serverEvery } = scene;
  // An older copy that is put back into a primary which is being replaced is lost with it.
  const servers = restores && scene.failOver !== undefined ? [] : scene.servers;
  const targets = {
    holders,
    links: links.length,
    servers: servers.length,
    without: impossibleOn(scene),
    serverEvery,
    restores,
    copies,
    workerIds: operators ? atWork : 0,
  };
  const nemesis = new Nemesis(scene, crew);
  let began = performance.now();
  const soFar = (): Omit<Progress, "phase"> => ({
    ids: crew.made,
    faults: nemesis.count,
    elapsed: performance.now() - began,
  });
  const telling = setInterval(() => onProgress?.({ phase: "faults", ...soFar() }), progressEvery);
  try {
    // A claim under a clock that was stepped, where there was none before, would make that one the embedded registry's measure.
    await crew.boot(atWork);
    began = performance.now();
    await nemesis.run(plan(seed, duration, rate, targets));
    await sleep(Math.max(0, duration - (performance.now() - began)));
    await crew.end();
    const { done, incidents, operator } = nemesis;
    return { ...soFar(), done, incidents, operator };
  } finally {
    clearInterval(telling);
  }
}

function idsIn(logs: readonly string[]): number {
  return logs.reduce((sum, log) => sum + Math.floor(statSync(`${log}.ids`).size / BigUint64Array.BYTES_PER_ELEMENT), 0);
}

function impossibleOn({ servers, cut, failOver }: Scene): FaultKind[] {
  return [
    ...(clocksMissing === undefined ? [] : clockFaults("holder")),
    ...(servers.some(({ clock }) => clock !== undefined) ? [] : clockFaults("server")),
    ...(cut === undefined ? (["server cut off"] as const) : []),
    ...(failOver === undefined ? (["primary replaced"] as const) : []),
  ];
}

function clockFaults(struck: "holder" | "server"): FaultKind[] {
  const all = Object.entries(faultKinds) as [FaultKind, (typeof faultKinds)[FaultKind]][];
  return all.filter(([, { strikes, lane }]) => strikes === struck && lane === "clock").map(([kind]) => kind);
}

/** What only this suite should step: the wall clock against the monotonic one, ms. */
function ownClock(): number {
  return Math.round(Date.now() - performance.now());
}

/** When each worker ID was held; undefined where the registry may have forgotten some of it. */
export function recordOf({ registry, remembers }: Scene): ((workerId: number) => Promise<HeldIntervals>) | undefined {
  return remembers ? (workerId) => readHeldIntervals(registry, namespace, workerId, defaultLayout) : undefined;
}

/** The command that does the same again. */
export function commandOf(
  name: string,
  { minutes, seed, holders, rate, restores, copies, operators, clients }: RunOptions,
): string {
  const more = `${restores ? " --restores" : ""}${copies ? " --copies" : ""}${operators ? " --operators" : ""}${clients ? " --clients" : ""}`;
  return `npm run prove -- --registry ${name} --minutes ${minutes} --seed ${seed} --holders ${holders} --rate ${rate}${more}`;
}
