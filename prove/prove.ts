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

/** Options of a run. */
export interface RunOptions {
  readonly seed: number;
  readonly minutes: number;
  /** How many holders there are at any time. */
  readonly holders: number;
  /** Faults of holders and their networks a second. */
  readonly rate: number;
  /** Whether the store is put back to older copies of itself during the run. */
  readonly restores?: boolean | undefined;
  /** Whether holders are copied during the run. */
  readonly copies?: boolean | undefined;
  /** Another maker beside holder.mjs. Default: one that uses the library as it is. */
  readonly maker?: string | undefined;
  /** Programs in other languages. Node and these programs take turns as holders. */
  readonly clients?: readonly ClientProgram[] | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** The progress of a run. */
export interface Progress {
  readonly phase: "faults" | "pool" | "check";
  readonly ids: number;
  readonly faults: number;
  /** The time since the faults began, ms. */
  readonly elapsed: number;
}

/** The result of a run. */
export interface Outcome extends Verdict {
  readonly faults: ReadonlyMap<FaultKind, number>;
  /** How many IDs the holders of each language made. */
  readonly languages: ReadonlyMap<string, number>;
  /** Worker IDs that could not be claimed after the run, each with the reason. */
  readonly stuck: readonly string[];
  /** Holders that ended by themselves, and their last words. */
  readonly crashes: readonly string[];
  /** Where the logs are kept. It contains logs only if something is wrong. */
  readonly folder: string;
}

/** Not in the folder for temporary files, which a run of tests clears. */
const keptLogs = fileURLToPath(new URL("../node_modules/.cache/snowlease/proofs", import.meta.url));

const window = 1000;
const progressEvery = 500;

/** Whether a run shows something that must never happen. */
export function isFlawed({ flaws, stuck, crashes }: Outcome): boolean {
  return Object.values(flaws).some((count) => count > 0) || stuck.length > 0 || crashes.length > 0;
}

/** Runs holders on a registry under faults, and checks their IDs against the rule. */
export async function prove(stage: Stage, options: RunOptions): Promise<Outcome> {
  const { holders, restores = false, copies = false, maker = restores || copies ? "recorded" : "leased" } = options;
  const folder = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
  chmodSync(folder, 0o755);
  const kept = join(keptLogs, basename(folder));
  const clock = ownClock();
  // There are fewer worker IDs than holders. So one holder always waits for the first free worker ID, and takes it as soon as its window
  // has passed. In a run with restores more holders wait, so that they claim before the holders that an older copy does not know.
  const waiting = restores ? Math.ceil(holders / 3) : 1;
  const pool = { first: 0, last: holders - 1 - waiting };
  const poolText = `${pool.first}-${pool.last}`;
  const scene = await stage.start(holders, folder, { pool: poolText, window });
  const programs = [undefined, ...(options.clients ?? [])];
  // One holder in four uses the mode `lead`. With holders in other languages, one in two of each language does.
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
    // A store that was put back to an older copy has forgotten some of its history.
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
    // Leave out sockets and the like.
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
  // If the older copy is put back into a primary that is being replaced, the copy is lost with it.
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
    // Start the holders before the faults. If the first claim in an embedded registry had a stepped clock, the registry would measure
    // other clocks by it.
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

/** The wall clock minus the monotonic clock, ms. Only this program should step it. */
function ownClock(): number {
  return Math.round(Date.now() - performance.now());
}

/** When each worker ID was held; undefined if the registry may have forgotten some of it. */
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
    // The registry keeps no record of earlier claims.
    return new HeldIntervals([{ ...oldest, continuedFrom: 0 }, ...rows], defaultLayout);
  };
}

/** The command that repeats this run. */
export function commandOf(
  name: string,
  { minutes, seed, holders, rate, restores, copies, clients }: RunOptions,
): string {
  const more = `${restores ? " --restores" : ""}${copies ? " --copies" : ""}${clients ? " --clients" : ""}`;
  return `npm run prove -- --registry ${name} --minutes ${minutes} --seed ${seed} --holders ${holders} --rate ${rate}${more}`;
}
