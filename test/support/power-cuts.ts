import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { check, type Incidents, type Verdict } from "../../prove/checker.ts";
import { Crew } from "../../prove/crew.ts";
import { type Fact, monotonicNow, readFacts } from "../../prove/log.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import { type HeldIntervals, readHeldIntervals } from "../../src/ops/audit/interval-set.ts";
import type { WorkerRecord } from "../../src/rule/registry.ts";
import { Random } from "../simulation/world.ts";
import { blackHole } from "./fault-proxy.ts";
import { limits, namespace, type PoweredStore, type PowerSetting } from "./power-stores.ts";

/** A window that a holder knows. */
interface Acknowledged {
  readonly log: string;
  readonly workerId: number;
  readonly fence: number;
  readonly until: number;
  /** The time of the answer, by the machine's monotonic clock, ms. */
  readonly time: number;
  /** The holder began to give it back: its end may be lower in the registry. */
  readonly isGivenBack: boolean;
}

/** Times of the machine's monotonic clock, ms. */
interface Cut {
  readonly begin: number;
  /** The store had its power back, and a view of it was taken. */
  readonly served: number;
  /** The next cut, or the end. */
  end: number;
}

/** The result of a story. */
export interface PowerStory extends Verdict {
  /** The promise of `ping`. */
  readonly durability: string;
  /** How many windows were acknowledged, each renewal counted. */
  readonly acknowledged: number;
  /** Cuts after which acknowledged windows were gone, and how many were. */
  readonly lossyCuts: number;
  readonly lost: number;
  /** How long before the cut the oldest lost window had been acknowledged, ms. */
  readonly oldestLoss: number;
  /** Holders that lived through a cut, and were renewed after it. */
  readonly renewed: number;
  /** Holders that learned that the store forgot their window. */
  readonly forgotten: number;
  /** Cuts after which a holder learned of a quarantine. */
  readonly quarantines: number;
  /** The first few windows that were gone, in words. */
  readonly gone: readonly string[];
  readonly crashes: readonly string[];
  /** The holders' logs; kept if something is wrong. */
  readonly logs: string;
}

const [holders, workerIds] = [5, 4];
const window = limits.maxWindow;
/** How long holders work between two cuts, ms: now and then long enough that a store tidies up beside its work. */
const [shortly, long] = [
  [150, 900],
  [1000, 3500],
] as const;
const longOnceIn = 8;
/** The time for a store to come back and end its quarantine, ms. */
const patience = 60_000;
const mostWords = 5;

/**
 * Has holders claim, renew and give back on a store, and cuts the power of its disk again and again. Compares the answers before each
 * cut with the store's content after it, and all IDs and windows, from before and after, with each other.
 */
export async function tellPowerStory(setting: PowerSetting, cuts: number, seed: number): Promise<PowerStory> {
  const random = new Random(seed);
  const folder = mkdtempSync(join(tmpdir(), "snowlease-power-logs-"));
  const store = await setting.start(setting.modes ?? []);
  const endsWithHolders = store.network === undefined;
  const crew = new Crew({
    size: holders,
    maker: "../test/support/restless",
    folder,
    optionsOf: (holder) => ({
      registry: store.url,
      namespace,
      pool: `0-${workerIds - 1}`,
      window,
      operationTimeout: 1000,
      maxWait: 200,
      host: `machine-${holder}`,
      mode: "wall",
      isRestless: holder % 2 === 0,
    }),
  });
  const incidents = { restores: [], restarts: [], mayForget: setting.forgets } as {
    restores: Incidents["restores"][number][];
    restarts: number[];
    mayForget: boolean;
  };
  const sums = { lossyCuts: 0, oldestLoss: 0 };
  const struck: Cut[] = [];
  const gone = new Map<string, string>();
  let isRight = false;
  try {
    await store.disk.mount(random.below(2 ** 31));
    incidents.restarts.push(monotonicNow());
    await store.start();
    await crew.boot(0);
    await goOn(store, crew, workerIds - 1);
    for (let cut = 1; cut <= cuts; cut++) {
      const [least, most] = random.chance(1 / longOnceIn) ? long : shortly;
      await sleep(random.between(least, most));
      const [begin, wall] = [monotonicNow(), Date.now()];
      store.network?.set(blackHole);
      await Promise.all([store.disk.cut(), endsWithHolders ? crew.kill() : store.kill()]);
      const end = monotonicNow();
      for (const before of struck.slice(-1)) before.end = begin;
      await store.disk.unmount();
      await store.disk.mount(random.below(2 ** 31));
      await store.start();
      const told = crew.logs.flatMap(acknowledgedIn);
      const records = await recordsOf(store);
      const served = monotonicNow();
      const lost = told.filter((each) => !isThere(each, records) && !gone.has(keyOf(each)));
      for (const each of lost) gone.set(keyOf(each), `cut ${cut}: ${wordsOf(each, records, begin)}`);
      if (lost.length > 0) sums.lossyCuts++;
      sums.oldestLoss = Math.max(sums.oldestLoss, ...lost.map(({ time }) => begin - time));
      struck.push({ begin, served, end: Infinity });
      if (setting.foundBy === "quarantine") incidents.restarts.push(end);
      if (setting.foundBy === "receipts") {
        const copied = Math.max(0, ...told.filter((each) => isStored(each, records)).map(({ time }) => time));
        incidents.restores.push({ copied, begin, end, served, wall });
      }
      if (endsWithHolders) await crew.boot(0);
      await goOn(store, crew, endsWithHolders ? workerIds - 1 : 1);
    }
    await crew.end();
    const told = crew.logs.flatMap(acknowledgedIn);
    const registry = await store.look(true);
    const { durability } = await registry.ping();
    const history = (workerId: number): Promise<HeldIntervals> =>
      readHeldIntervals(registry, namespace, workerId, defaultLayout);
    const verdict = await check(crew.logs, defaultLayout, setting.forgets ? undefined : history, incidents);
    await registry.close();
    const flaws = Object.values(verdict.flaws).some((count) => count > 0);
    isRight = !flaws && (setting.forgets || gone.size === 0) && crew.crashes.length === 0;
    const heard = struck.flatMap((each) => crew.logs.map((log) => firstAnswerIn(log, each)));
    return {
      ...verdict,
      ...sums,
      durability,
      acknowledged: told.length,
      lost: gone.size,
      renewed: heard.filter((each) => each === "renewed").length,
      forgotten: heard.filter((each) => each === "lost forgotten").length,
      quarantines: struck.filter((each) => crew.logs.some((log) => heardQuarantine(log, each))).length,
      gone: [...gone.values()].slice(0, mostWords),
      crashes: crew.crashes,
      logs: folder,
    };
  } finally {
    await crew.kill();
    await store.remove();
    if (isRight) rmSync(folder, { recursive: true });
  }
}

/** All windows that holders know. */
function acknowledgedIn(log: string): Acknowledged[] {
  const found: Acknowledged[] = [];
  let own: Acknowledged[] = [];
  // In a quarantine a holder changes its window by itself.
  let answeredAt: number | undefined;
  /** An answer within the tick of the one before it leaves the window as it was: it was acknowledged again. */
  const again = (): void => {
    const last = own.pop();
    if (last !== undefined) own.push({ ...last, time: answeredAt ?? last.time });
    answeredAt = undefined;
  };
  for (const { window: told, left, heard, time = 0 } of readFacts(log)) {
    if (heard !== undefined) {
      again();
      if (isGranted(heard)) answeredAt = time;
    }
    if (left !== undefined) {
      again();
      found.push(...own.map((each) => ({ ...each, isGivenBack: true })));
      own = [];
    }
    if (told === undefined || answeredAt === undefined) continue;
    answeredAt = undefined;
    const { workerId, fence, until } = told;
    own.push({ log, workerId, fence, until, time, isGivenBack: false });
  }
  again();
  return [...found, ...own];
}

function isGranted(heard: string | undefined): boolean {
  return heard === "granted" || heard === "renewed";
}

async function recordsOf(store: PoweredStore): Promise<ReadonlyMap<number, WorkerRecord>> {
  const registry = await store.look();
  try {
    return new Map((await registry.workers(namespace)).map((record) => [record.workerId, record]));
  } finally {
    await registry.close();
  }
}

function keyOf({ log, workerId, fence, until }: Acknowledged): string {
  return `${log} ${workerId} ${fence} ${until}`;
}

/** Whether the store remembers a window, or what came after it. */
function isThere(
  { workerId, fence, until, isGivenBack }: Acknowledged,
  records: ReadonlyMap<number, WorkerRecord>,
): boolean {
  const record = records.get(workerId);
  if (record === undefined || record.fence < fence) return false;
  return record.fence > fence || isGivenBack || record.until >= until;
}

/** Whether the store has it as its present claim. */
function isStored(told: Acknowledged, records: ReadonlyMap<number, WorkerRecord>): boolean {
  return records.get(told.workerId)?.fence === told.fence && isThere(told, records);
}

function wordsOf(
  { workerId, fence, until, time }: Acknowledged,
  records: ReadonlyMap<number, WorkerRecord>,
  begin: number,
): string {
  const record = records.get(workerId);
  const stored = record === undefined ? "nothing" : `fence ${record.fence} until ${record.until}`;
  return `worker ${workerId}, fence ${fence} until ${until}, acknowledged ${Math.round(begin - time)} ms before; stored: ${stored}`;
}

/** Lets holders reach the store, and waits until this many got a window or a renewal since. */
async function goOn({ network }: PoweredStore, crew: Crew, many: number): Promise<void> {
  const since = monotonicNow();
  network?.heal();
  const isWorking = (log: string): boolean =>
    readFacts(log).some(({ heard, time = 0 }) => isGranted(heard) && time > since);
  while (crew.logs.filter(isWorking).length < many) {
    if (monotonicNow() - since > patience) throw new Error("The store has its power back, and grants nothing.");
    await sleep(20);
  }
}

/** The first answer, after the power is back, to a holder that had a window when it went. */
function firstAnswerIn(log: string, { begin, served, end }: Cut): string | undefined {
  const facts = readFacts(log);
  const before = facts
    .filter(({ time = 0 }) => time < begin && time > 0)
    .findLast(({ window: told, left }) => told ?? left);
  if (before?.window === undefined) return undefined;
  const isAnswer = ({ heard, sent = 0, time = 0 }: Fact): boolean =>
    heard !== undefined && heard !== "quarantine" && sent > served && time < end;
  return facts.find(isAnswer)?.heard;
}

function heardQuarantine(log: string, { served, end }: Cut): boolean {
  return readFacts(log).some(({ heard, time = 0 }) => heard === "quarantine" && time > served && time < end);
}
