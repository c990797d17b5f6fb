import { chmodSync, cpSync, lstatSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { defaultLayout } from "../src/id/layout.ts";
import { HeldIntervals, readHeldIntervals } from "../src/ops/audit/interval-set.ts";
import { clocksMissing } from "../test/support/holder.ts";
import { check, type Incidents, type Verdict } from "./checker.ts";
import { type ClientProgram, Crew } from "./crew.ts";
import { Nemesis } from "./nemesis.ts";
import { type FaultKind, plan } from "./plan.ts";
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
  /** Another maker beside holder.mjs than the library as it is. */
  readonly maker?: string | undefined;
  /** Programs in other languages: every second, third, … holder is one of these. */
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
  /** Worker IDs that nobody could have when all was over, and why not. */
  readonly stuck: readonly string[];
  /** Holders that ended by themselves, and their last words. */
  readonly crashes: readonly string[];
  /** Where the logs are kept; nothing is there unless something is wrong. */
  readonly folder: string;
}

/** Not among the temporary files, which a run of tests clears. */
const keptLogs = fileURLToPath(new URL("../node_modules/.cache/snowlease/proofs", import.meta.url));

const window = 1000;
const progressEvery = 500;

/** Whether something is wrong that must never be. */
export function isFlawed({ flaws, stuck, crashes }: Outcome): boolean {
  return Object.values(flaws).some((count) => count > 0) || stuck.length > 0 || crashes.length > 0;
}

/** Puts holders on a registry under fire, and holds what they made against the rule. */
export async function prove(stage: Stage, options: RunOptions): Promise<Outcome> {
  const { holders, restores = false, copies = false, maker = restores || copies ? "recorded" : "leased" } = options;
  const folder = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
  chmodSync(folder, 0o755);
  const kept = join(keptLogs, basename(folder));
  const clock = ownClock();
  // One worker ID too few: somebody always waits for the first that comes free, and takes it the moment its window has passed. More of them
  // are faster than the holders that an older copy does not know.
  const waiting = restores ? Math.ceil(holders / 3) : 1;
  const pool = { first: 0, last: holders - 1 - waiting };
  const poolText = `${pool.first}-${pool.last}`;
  const scene = await stage.start(holders, folder, { pool: poolText, window });
  const programs = [undefined, ...(options.clients ?? [])];
  // One in four goes ahead of the clock; of few of Node's, one in two.
  const leadEvery = programs.length === 1 ? 4 : 2;
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
      mode: Math.floor(holder / programs.length) % leadEvery === leadEvery - 1 ? "lead" : "wall",
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
    const verdict = await check(crew.logs, defaultLayout, history, faults.incidents);
    const languages = new Map([...crew.logsByLanguage].map(([language, logs]) => [language, idsIn(logs)]));
    const outcome = { ...verdict, languages, faults: faults.done, stuck, crashes: crew.crashes, folder: kept };
    flawed = isFlawed(outcome);
    if (flawed) writeFileSync(join(folder, "incidents.json"), JSON.stringify(faults.incidents));
    return outcome;
  } finally {
    await crew.kill();
    await scene.remove();
    // Without sockets and the like.
    const filter = (path: string): boolean => lstatSync(path).isFile() || lstatSync(path).isDirectory();
    if (flawed) cpSync(folder, kept, { recursive: true, filter });
    rmSync(folder, { recursive: true });
  }
}

async function underFire(
  scene: Scene,
  crew: Crew,
  { seed, minutes, holders, rate, restores = false, copies = false, onProgress }: RunOptions,
  atWork: number,
): Promise<Omit<Progress, "phase"> & { readonly done: ReadonlyMap<FaultKind, number>; readonly incidents: Incidents }> {
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
    return { ...soFar(), done: nemesis.done, incidents: nemesis.incidents };
  } finally {
    clearInterval(telling);
  }
}

function idsIn(logs: readonly string[]): number {
  return logs.reduce((sum, log) => sum + Math.floor(statSync(`${log}.ids`).size / BigUint64Array.BYTES_PER_ELEMENT), 0);
}

function impossibleOn({ servers, cut, failOver }: Scene): FaultKind[] {
  return [
    ...(clocksMissing === undefined ? [] : (["holder's clock stepped"] as const)),
    ...(servers.some(({ clock }) => clock !== undefined) ? [] : (["server's clock stepped"] as const)),
    ...(cut === undefined ? (["server cut off"] as const) : []),
    ...(failOver === undefined ? (["primary replaced"] as const) : []),
  ];
}

/** What nobody but us should step: the wall clock against the monotonic one, ms. */
function ownClock(): number {
  return Math.round(Date.now() - performance.now());
}

/** When each worker ID was held; undefined where the registry may have forgotten some of it. */
export function recordOf({
  registry,
  remembers,
  keptClaims,
}: Scene): ((workerId: number) => Promise<HeldIntervals>) | undefined {
  if (!remembers) return undefined;
  if (keptClaims === undefined) {
    return (workerId) => readHeldIntervals(registry, namespace, workerId, defaultLayout);
  }
  return async (workerId) => {
    const rows = await registry.history(namespace, workerId);
    const [oldest] = rows;
    if (oldest === undefined || rows.length < keptClaims) return new HeldIntervals(rows, defaultLayout);
    // Of the claims before that, nothing is on record any more.
    return new HeldIntervals([{ ...oldest, continuedFrom: 0 }, ...rows], defaultLayout);
  };
}

/** The command that does the same again. */
export function commandOf(
  name: string,
  { minutes, seed, holders, rate, restores, copies, clients }: RunOptions,
): string {
  const more = `${restores ? " --restores" : ""}${copies ? " --copies" : ""}${clients ? " --clients" : ""}`;
  return `npm run prove -- --registry ${name} --minutes ${minutes} --seed ${seed} --holders ${holders} --rate ${rate}${more}`;
}
