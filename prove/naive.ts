import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defaultLayout } from "../src/id/layout.ts";
import { blackHole } from "../test/support/fault-proxy.ts";
import { check, type Flaw, type Verdict } from "./checker.ts";
import { Crew } from "./crew.ts";
import { Nemesis } from "./nemesis.ts";
import type { Fault } from "./plan.ts";
import { namespace, type Scene } from "./scene.ts";
import { recordOf } from "./prove.ts";
import type { Stage } from "./scenes.ts";

/** A way of making IDs that goes wrong sooner or later, and the faults that cause it. */
export interface NaiveMaker {
  /** The name of a module beside holder.mjs. */
  readonly module: string;
  /** The registry on which it can run. Default: each one with a network that can be cut. */
  readonly on?: string | undefined;
  /** The pool. Default: one worker ID for two holders. */
  readonly pool?: string | undefined;
  /** The flaws that the checker must find. */
  readonly flaws: readonly Flaw[];
  /** What is done to two holders, again and again. */
  readonly strike:
    | readonly Omit<Fault, "target" | "by">[]
    | ((scene: Scene, crew: Crew, holder: number) => Promise<void>);
}

/** Longer than a window, so that the other holder takes the worker ID over, ms. */
const cut = 3000;
/** Longer than the time from renewal to renewal, and shorter than a window, ms. */
const soon = 500;
/** How far a clock is ahead before it is corrected, ms. */
const ahead = 2000;

/** The first comment of each module says what the maker does. */
export const naiveMakers: readonly NaiveMaker[] = [
  { module: "naive/unguarded", flaws: ["duplicates", "outside"], strike: cutOff },
  { module: "naive/heartbeat", flaws: ["duplicates"], on: "redis", strike: cutOff },
  { module: "naive/setnx", flaws: ["duplicates"], on: "redis", strike: restartSetBack },
  { module: "naive/unfenced", flaws: ["duplicates", "overlaps"], strike: cutOff },
  { module: "naive/unwritten", flaws: ["unrecorded"], pool: "0-1", strike: letPass },
  { module: "naive/unused", flaws: ["overlaps"], strike: deploy },
  { module: "naive/unraised", flaws: ["fences"], strike: deploy },
  {
    module: "naive/unreceipted",
    flaws: ["unnoticed"],
    pool: "0-1",
    strike: [
      { kind: "store put back", at: 0, lasts: soon },
      // The times that the holder has used since then lie outside its window in the older copy. The store may refuse it for ever.
      { kind: "holder killed (-9)", at: cut, lasts: 0 },
    ],
  },
  {
    module: "naive/turnless",
    flaws: ["duplicates"],
    pool: "0-1",
    strike: [{ kind: "holder copied", at: 0, lasts: cut }],
  },
];

/** Whether the checker found everything that is wrong with a maker. */
export function isFoundOut({ flaws }: NaiveMaker, verdict: Verdict): boolean {
  return flaws.every((flaw) => verdict.flaws[flaw] > 0);
}

/** Strikes two holders by turns, until the checker finds out what is wrong with them, or at most `mostStrikes` times. */
export async function findOut(stage: Stage, maker: NaiveMaker, mostStrikes: number): Promise<Verdict> {
  const { module, pool = "0-0", strike } = maker;
  const folder = mkdtempSync(join(tmpdir(), "snowlease-prove-"));
  chmodSync(folder, 0o755);
  const size = 2;
  const window = 1000;
  const scene = await stage.start(size, folder, { pool, window });
  const optionsOf = (holder: number): object => ({
    registry: scene.url(holder),
    namespace,
    pool,
    window,
    operationTimeout: 1000,
    maxWait: 200,
    mode: "wall",
    host: `machine-${holder}`,
  });
  const crew = new Crew({ size, maker: module, folder, optionsOf });
  const nemesis = new Nemesis(scene, crew);
  try {
    await crew.boot(1);
    for (let strikes = 1; ; strikes++) {
      const target = strikes % size;
      if (typeof strike === "function") await strike(scene, crew, target);
      else await nemesis.run(strike.map((fault) => ({ ...fault, target, by: 0 }))).then(letPass);
      const { incidents } = nemesis;
      // A store that was put back to an older copy has forgotten some of its history.
      const history = incidents.restores.length > 0 ? undefined : recordOf(scene);
      const verdict = await check(crew.logs, defaultLayout, history, incidents);
      if (isFoundOut(maker, verdict) || strikes === mostStrikes) return verdict;
    }
  } finally {
    await crew.kill();
    await scene.remove();
    rmSync(folder, { recursive: true });
  }
}

/** Cuts a holder off, so that it cannot hear that its time is up. */
async function cutOff({ links }: Scene, _: Crew, holder: number): Promise<void> {
  for (const link of links[holder] ?? []) link.set(blackHole);
  await sleep(cut);
  for (const link of links[holder] ?? []) link.heal();
}

/** Corrects a clock that was ahead, and restarts the program. */
async function restartSetBack(_: Scene, crew: Crew, holder: number): Promise<void> {
  const place = crew.place(holder);
  place.clock?.set(ahead / 1000);
  await sleep(ahead);
  place.clock?.set(0);
  await place.kill();
  await place.boot();
  await sleep(ahead);
}

async function letPass(): Promise<void> {
  await sleep(cut);
}

/** Lets a holder give its worker ID back, so that the waiting one takes it. */
async function deploy(_: Scene, crew: Crew, holder: number): Promise<void> {
  const place = crew.place(holder);
  await place.close();
  await place.boot();
  await sleep(cut);
}
