import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Layout } from "../id/layout.ts";
import type { CuttableWay } from "./cut.ts";
import { HolderError, HolderProcess } from "./holder-process.ts";
import type { HolderState } from "./holder-protocol.ts";
import type { ProofSubject } from "./subject.ts";

/** What a nemesis does. The faults come from the seed alone; what the machine makes of them does not. */
export interface NemesisOptions {
  readonly minutes: number;
  readonly seed: number;
  /** Holders at a time. Default 6. */
  readonly holders?: number | undefined;
  /** The way of the holders to the server; without it, no connection is cut. */
  readonly way?: CuttableWay | undefined;
  /** Ends it early: what was made until then is compared. */
  readonly signal?: AbortSignal | undefined;
}

/** What came of it. */
export interface NemesisReport {
  readonly seed: number;
  readonly ids: number;
  /** Processes that made IDs. */
  readonly processes: number;
  /** Claims and renewals of the holders, about. */
  readonly calls: number;
  readonly faults: Readonly<Record<Fault, number>>;
  /** What must not be, each in words. */
  readonly flaws: readonly string[];
}

type Fault = "killed" | "stopped" | "replaced" | "cut";

/** Ms: each window, the pause between faults, and the longest time for which a process is stopped or a connection cut. */
const [window, pause, longest] = [1500, 1000, 2500];
/** How long it may take until all that can hold a worker ID do so after the last fault, ms. */
const patience = 60_000;
/** A handful of IDs is made each so many ms. */
const pace = 20;

/** A place for a holder: when one dies, another takes its place. */
interface Place {
  holder: HolderProcess | undefined;
  /** While its holder waits for a worker ID, is stopped or is being replaced, no fault strikes it. */
  isBusy: boolean;
}

/** Holders share a pool that is smaller by one, so that one always waits, and are struck by faults. Every ID is compared with every other. */
export async function nemesis(subject: ProofSubject, options: NemesisOptions): Promise<NemesisReport> {
  const { minutes, seed, holders = 6, way, signal } = options;
  const { registry, namespace, environment } = subject;
  const random = numbers(seed);
  const folder = mkdtempSync(join(tmpdir(), "snowlease-nemesis-"));
  const all: HolderProcess[] = [];
  const places = Array.from({ length: holders }, (): Place => ({ holder: undefined, isBusy: true }));
  const faults: Record<Fault, number> = { killed: 0, stopped: 0, replaced: 0, cut: 0 };
  const flaws: string[] = [];
  const calls = new Map<HolderProcess, number>();
  let isOver = false;

  const settings = {
    registry: way?.url ?? subject.url,
    namespace,
    window,
    pool: `0-${holders - 2}`,
    claimTimeout: 2000,
    operationTimeout: 2000,
  };

  /** Starts a holder at a place, which claims until it gets a worker ID. */
  async function occupy(place: Place): Promise<void> {
    place.isBusy = true;
    const holder = new HolderProcess(settings, { folder, environment });
    all.push(holder);
    place.holder = holder;
    while (!isOver) {
      try {
        await holder.ask("start");
        await holder.ask("run", { pause: pace });
        place.isBusy = false;
        return;
      } catch (error) {
        if (isOver) return;
        if (!(error instanceof HolderError)) flaws.push(`a holder ended by itself: ${String(error)}`);
        else if (!isExpected(error.code)) flaws.push(`a holder was told ${error.code}: ${error.message}`);
        if (holder.hasEnded) return;
      }
      await sleep(100);
    }
  }

  async function replaced(place: Place, how: "killed" | "replaced"): Promise<void> {
    const { holder } = place;
    place.isBusy = true;
    if (how === "replaced") await Promise.race([holder?.ask("close").catch(() => undefined), sleep(5000)]);
    await holder?.kill();
    await occupy(place);
  }

  async function stopped(place: Place, ms: number): Promise<void> {
    const { holder } = place;
    place.isBusy = true;
    holder?.stopFor(ms);
    await sleep(ms);
    place.isBusy = false;
  }

  const work: Promise<unknown>[] = places.map(occupy);
  const watch = setInterval(() => {
    for (const holder of all) {
      if (holder.hasEnded) continue;
      holder.ask("state").then(
        (state) => note(holder, state),
        () => undefined,
      );
    }
  }, pause);

  function note(holder: HolderProcess, { calls: count, failures }: HolderState): void {
    calls.set(holder, count);
    for (const code of Object.keys(failures)) {
      if (!isExpected(code)) flaws.push(`a holder was told ${code} in the place of an ID`);
    }
  }

  try {
    const end = performance.now() + minutes * 60_000;
    await pauseOr(2 * pause, signal);
    while (performance.now() < end && signal?.aborted !== true) {
      const kinds: readonly Fault[] =
        way === undefined ? ["killed", "stopped", "replaced"] : ["killed", "stopped", "replaced", "cut"];
      const [kind, number, ms] = [
        kinds[random(kinds.length)] ?? "killed",
        random(holders),
        200 + random(longest - 200),
      ];
      const place = places[number];
      if (kind === "cut") {
        faults.cut++;
        way?.cut();
        await pauseOr(ms, signal);
        way?.heal();
      } else if (place !== undefined && !place.isBusy && place.holder !== undefined) {
        faults[kind]++;
        work.push(kind === "stopped" ? stopped(place, ms) : replaced(place, kind));
      }
      await pauseOr(pause, signal);
    }
    way?.heal();
    if (signal?.aborted !== true) await recovered();
  } finally {
    isOver = true;
    clearInterval(watch);
    for (const holder of all) holder.signal("SIGCONT");
    // A process that waits for its claim does not wait for the end.
    await Promise.all(all.map((holder) => Promise.race([holder.ask("close").catch(() => undefined), sleep(2000)])));
    await Promise.all(all.map((holder) => holder.kill()));
    await Promise.allSettled(work);
    await Promise.all(all.map((holder) => holder.kill()));
  }

  /** After the last fault, each worker ID of the pool has a holder again that makes IDs. */
  async function recovered(): Promise<void> {
    const until = performance.now() + patience;
    for (;;) {
      const states = await Promise.all(
        places.map(({ holder }) => Promise.race([holder?.ask("state").catch(() => undefined), sleep(1000)])),
      );
      const held = states.filter((state) => state && state.state === "held" && state.until > Date.now());
      if (held.length >= holders - 1) return;
      if (performance.now() > until || signal?.aborted === true) {
        flaws.push(
          `of ${holders - 1} worker IDs, ${held.length} had a holder ${patience / 1000} s after the last fault`,
        );
        return;
      }
      await sleep(200);
    }
  }

  try {
    const info = await registry.describe(namespace);
    const { ids, found } = compared(all, Layout.parse(info?.layout ?? ""));
    const sum = [...calls.values()].reduce((a, b) => a + b, 0);
    const processes = all.filter((each) => each.ids().length > 0).length;
    return { seed, ids, processes, calls: sum, faults, flaws: [...new Set([...flaws, ...found])] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Compares all IDs with each other, and each with the window that its maker knew of. */
function compared(
  all: readonly HolderProcess[],
  layout: Layout,
): { readonly ids: number; readonly found: readonly string[] } {
  const made: bigint[] = [];
  let outside = 0;
  let example = "";
  for (const holder of all) {
    for (const { id, window: known } of holder.made()) {
      made.push(id);
      const { timestamp, workerId } = layout.decompose(id);
      const fits = known !== undefined && workerId === known.workerId && timestamp >= known.knownFrom;
      if (fits && timestamp + layout.tick <= known.until) continue;
      outside++;
      example ||= `${id}, of ${timestamp}, in ${JSON.stringify(known)}`;
    }
  }
  const sorted = BigUint64Array.from(made).toSorted();
  const twice = sorted.filter((id, i) => i > 0 && id === sorted[i - 1]);
  const found: string[] = [];
  if (twice.length > 0) found.push(`${twice.length} of ${made.length} IDs came twice, the first ${twice[0]}`);
  if (outside > 0) found.push(`${outside} of ${made.length} IDs were outside of their windows, the first ${example}`);
  if (made.length === 0) found.push("no ID was made");
  return { ids: made.length, found };
}

/** What a holder may be told whatever is done to it: that it may try again, or that its lease is lost. */
function isExpected(code: string): boolean {
  return /^(?:POOL_EXHAUSTED|WORKER_ID_HELD|LEASE_LOST|LEASE_EXPIRED|WINDOW_NOT_OPEN|CLOCK_SKEW|SEQUENCE_EXHAUSTED|REGISTRY_UNAVAILABLE|RATE_LIMITED)$/.test(
    code,
  );
}

async function pauseOr(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, signal && { signal }).catch(() => undefined);
}

/** Whole numbers from 0 up to, but not including, a bound, which depend on the seed alone (mulberry32). */
function numbers(seed: number): (bound: number) => number {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * bound);
  };
}
