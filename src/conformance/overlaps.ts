import type { Grant, Registry } from "../rule/registry.ts";
import { ensure, equal, outcome } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { on, recentsFrom, type GrantedClaim, type Trial } from "./trial.ts";

/** Random numbers that are the same in every run (mulberry32), so that failures can be repeated. */
function seeded(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * n);
  };
}

const hosts = ["alpha", "beta", "gamma"] as const;
const stepsPerWalk = 160;

/** The state of one worker ID by the rule: its last claim, and the end of its used time. */
interface ExpectedWindow {
  readonly held: GrantedClaim;
  readonly until: number;
  readonly released: boolean;
}

/** Sends random requests for three worker IDs. Compares each answer, and each record at the end, with the rule. */
async function walk(trial: Trial, pick: (n: number) => number): Promise<void> {
  const windows = new Map<number, ExpectedWindow>();
  /** All holders so far. They may send late requests. */
  const holders: GrantedClaim[] = [];

  /** The expected window of a holder's worker ID; undefined if the holder is not the present one. */
  function presentOf(held: GrantedClaim): ExpectedWindow | undefined {
    const known = windows.get(held.grant.workerId);
    return known?.held === held && !known.released ? known : undefined;
  }

  async function claim(workerId: number): Promise<void> {
    const wanted = pick(2) === 0 ? { workerId } : {};
    const clock = trial.now() + pick(100) - 50;
    const holder = on(hosts[pick(hosts.length)] ?? "alpha");
    const pool = { first: 0, last: 2 };
    const held = await trial.tryClaim({ ...wanted, pool, holder, clock, window: 20 + pick(40) });
    if (held === undefined) return;
    const { grant } = held;
    const before = windows.get(grant.workerId);
    if (before !== undefined) {
      const { until, held } = before;
      ensure(grant.from >= until, `a window of worker ${grant.workerId} that begins at or after ${until}`, grant);
      ensure(grant.fence > held.grant.fence, `a fence above ${held.grant.fence}`, grant);
    }
    holders.push(held);
    windows.set(grant.workerId, { held, until: grant.until, released: false });
  }

  async function renew(_: number, held: GrantedClaim): Promise<void> {
    const answer = await trial.renew(held, { window: 20 + pick(40) });
    const known = presentOf(held);
    equal(answer.outcome, known ? "renewed" : "lost", `the answer to a holder that ${known ? "is" : "is not"} present`);
    if (answer.outcome !== "renewed" || known === undefined) return;
    ensure(answer.until >= known.until && answer.from === held.grant.from, "a window that only grows", answer);
    windows.set(held.grant.workerId, { ...known, until: answer.until });
  }

  async function release(_: number, held: GrantedClaim): Promise<void> {
    const known = presentOf(held);
    const { from } = held.grant;
    const until = known === undefined ? held.grant.until : from + pick(known.until - from + 1);
    const recents = pick(2) === 0 ? recentsFrom(from + pick(until - from + 1)) : undefined;
    const used = pick(3) === 0 ? undefined : { until, recents };
    const { outcome } = await trial.release(held, used);
    if (known === undefined) return;
    equal(outcome, "released", "the answer to the present holder");
    windows.set(held.grant.workerId, { ...known, until: used?.until ?? known.until, released: true });
  }

  async function repeat(_: number, held: GrantedClaim): Promise<void> {
    const known = presentOf(held);
    if (known === undefined) return;
    const answer = await trial.registry.claim({ ...held.request, clock: trial.now() });
    const { fence, from, until } = outcome(answer, "granted", "a repeated claim");
    const { grant } = held;
    equal([fence, from, until], [grant.fence, grant.from, known.until], "the repeated grant's fence and window");
  }

  async function pin(workerId: number): Promise<void> {
    await trial.pin(workerId, "for a while");
    await trial.unpin(workerId);
  }

  async function force(workerId: number): Promise<void> {
    const answer = await trial.force(workerId, { force: pick(2) === 0 });
    const known = windows.get(workerId);
    if (answer.outcome === "released" && known) windows.set(workerId, { ...known, released: true });
  }

  const pause = (): Promise<void> => trial.pause(10 + pick(30));

  const moves = [claim, claim, renew, renew, release, repeat, pin, force, pause];
  for (let step = 0; step < stepsPerWalk; step++) {
    const workerId = pick(3);
    const held = holders[pick(holders.length)];
    await (held === undefined ? claim(workerId) : moves[pick(moves.length)]?.(workerId, held));
  }
  for (const [workerId, { until, held }] of windows) {
    const record = await trial.record(workerId);
    equal([record.until, record.fence], [until, held.grant.fence], `\`until\` and fence of worker ${workerId}`);
  }
}

/** A window as its holder could use it. */
type UsedWindow = Pick<Grant, "workerId" | "fence" | "from" | "until">;

/** Repeatedly claims, renews, and gives back or crashes. */
async function compete(
  trial: Trial,
  registry: Registry,
  host: string,
  pick: (n: number) => number,
): Promise<UsedWindow[]> {
  const windows: UsedWindow[] = [];
  // On a busy machine, most rounds find both worker IDs taken.
  for (let round = 0; round < 8 || (windows.length < 2 && round < 200); round++) {
    const window = 20 + pick(20);
    const held = await trial.tryClaim({ pool: { first: 0, last: 1 }, holder: on(host), window }, registry);
    if (held === undefined) {
      await trial.pause(10);
      continue;
    }
    const { from } = held.grant;
    let { until } = held.grant;
    await trial.pause(pick(30));
    const renewal = await trial.renew(held, { registry, window });
    if (renewal.outcome === "renewed") {
      const used = { until: from + pick(renewal.until - from + 1) };
      const isBack = pick(2) === 0 && (await trial.release(held, used, { registry })).outcome === "released";
      ({ until } = isBack ? used : renewal);
    }
    windows.push({ ...held.grant, until });
  }
  return windows;
}

/** The rule itself, for any order of requests. */
export const overlaps: readonly ConformanceCheck[] = [
  check("the windows granted for a worker ID never overlap, after any sequence of requests", async (trial) => {
    for (const seed of [1, 2]) {
      await walk(trial, seeded(seed));
      // The next walk expects unused worker IDs, so wait until no window is open.
      await trial.pause(200);
    }
  }),

  check("the windows granted for a worker ID never overlap, with competing hosts", async (trial) => {
    const competitors = ["alpha", "alpha", "beta", "gamma"];
    const used = await trial.concurrently(competitors.length, (registry, i) => {
      return compete(trial, registry, competitors[i] ?? "", seeded(i));
    });
    const windows = used.flat().toSorted((a, b) => a.workerId - b.workerId || a.fence - b.fence);
    ensure(windows.length > 4, "several claims to be granted", windows.length);
    for (const [i, window] of windows.entries()) {
      const next = windows[i + 1];
      if (next === undefined || next.workerId !== window.workerId) continue;
      ensure(next.fence > window.fence, "fences that rise", [window, next]);
      ensure(next.from >= window.until, "windows that do not overlap", [window, next]);
    }
  }),
];
