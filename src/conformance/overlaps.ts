import type { Registry } from "../rule/registry.ts";
import { ensure, equal } from "./assert.ts";
import { check, type ConformanceCheck } from "./check.ts";
import { grantedClaim, on, recentsFrom, type GrantedClaim, type Trial } from "./trial.ts";

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

/** Sends random requests for three worker IDs and compares each answer with the rule. */
class RandomWalk {
  readonly #trial: Trial;
  readonly #pick: (n: number) => number;
  readonly #expected = new Map<number, ExpectedWindow>();
  /** Every holder so far: they may send late requests. */
  readonly #holders: GrantedClaim[] = [];

  constructor(trial: Trial, pick: (n: number) => number) {
    this.#trial = trial;
    this.#pick = pick;
  }

  async step(): Promise<void> {
    const { namespace, registry } = this.#trial;
    const workerId = this.#pick(3);
    const held = this.#holders[this.#pick(this.#holders.length)];
    switch (this.#pick(held === undefined ? 1 : 9)) {
      case 0:
      case 1:
        return this.#claim(workerId);
      case 2:
      case 3:
        return held && this.#renew(held);
      case 4:
        return held && this.#release(held);
      case 5:
        return held && this.#repeat(held);
      case 6:
        await registry.pin(namespace, workerId, "for a while");
        await registry.unpin(namespace, workerId);
        return;
      case 7: {
        const answer = await this.#trial.force(workerId, { force: this.#pick(2) === 0 });
        const known = this.#expected.get(workerId);
        if (answer.outcome === "released" && known) this.#expected.set(workerId, { ...known, released: true });
        return;
      }
      default:
        return this.#trial.pause(10 + this.#pick(30));
    }
  }

  /** Checks that every record matches the answers to its holders. */
  async compare(): Promise<void> {
    for (const [workerId, { until, held }] of this.#expected) {
      const record = await this.#trial.record(workerId);
      equal([record.until, record.fence], [until, held.grant.fence], `\`until\` and fence of worker ${workerId}`);
    }
  }

  async #claim(workerId: number): Promise<void> {
    const wanted = this.#pick(2) === 0 ? { workerId } : {};
    const pool = { first: 0, last: 2 };
    const clock = this.#trial.now() + this.#pick(100) - 50;
    const holder = on(hosts[this.#pick(hosts.length)] ?? "alpha");
    const request = this.#trial.request({ ...wanted, pool, holder, clock, window: 20 + this.#pick(40) });
    const grant = await this.#trial.registry.claim(request);
    if (grant.outcome !== "granted") return;
    const before = this.#expected.get(grant.workerId);
    if (before !== undefined) {
      const { until, held } = before;
      ensure(grant.from >= until, `a window of worker ${grant.workerId} that begins at or after ${until}`, grant);
      ensure(grant.fence > held.grant.fence, `a fence above ${held.grant.fence}`, grant);
    }
    const held = grantedClaim(request, grant);
    this.#holders.push(held);
    this.#expected.set(grant.workerId, { held, until: grant.until, released: false });
  }

  async #renew(held: GrantedClaim): Promise<void> {
    const answer = await this.#trial.renew(held, { window: 20 + this.#pick(40) });
    const known = this.#presentOf(held);
    equal(answer.outcome, known ? "renewed" : "lost", `the answer to a holder that ${known ? "is" : "is not"} present`);
    if (answer.outcome !== "renewed" || known === undefined) return;
    ensure(answer.until >= known.until && answer.from === held.grant.from, "a window that only grows", answer);
    this.#expected.set(held.grant.workerId, { ...known, until: answer.until });
  }

  async #release(held: GrantedClaim): Promise<void> {
    const known = this.#presentOf(held);
    const { from } = held.grant;
    const until = known === undefined ? held.grant.until : from + this.#pick(known.until - from + 1);
    const recents = this.#pick(2) === 0 ? recentsFrom(from + this.#pick(until - from + 1)) : undefined;
    const used = this.#pick(3) === 0 ? undefined : { until, recents };
    const { outcome } = await this.#trial.release(held, used);
    if (known === undefined) return;
    equal(outcome, "released", "the answer to the present holder");
    this.#expected.set(held.grant.workerId, { ...known, until: used?.until ?? known.until, released: true });
  }

  async #repeat(held: GrantedClaim): Promise<void> {
    const known = this.#presentOf(held);
    if (known === undefined) return;
    const answer = await this.#trial.registry.claim({ ...held.request, clock: this.#trial.now() });
    ensure(answer.outcome === "granted", "a repeated claim to be granted", answer);
    const seen = [answer.fence, answer.from, answer.until];
    equal(seen, [held.grant.fence, held.grant.from, known.until], "the repeated grant's fence and window");
  }

  /** The expected window of a holder's worker ID, if it is still the present holder. */
  #presentOf(held: GrantedClaim): ExpectedWindow | undefined {
    const known = this.#expected.get(held.grant.workerId);
    return known?.held === held && !known.released ? known : undefined;
  }
}

/** A window as its holder could use it. */
interface UsedWindow {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
}

/** Repeatedly claims, renews, and gives back or crashes. */
async function compete(
  trial: Trial,
  registry: Registry,
  host: string,
  pick: (n: number) => number,
): Promise<UsedWindow[]> {
  const spans: UsedWindow[] = [];
  for (let round = 0; round < 8; round++) {
    const window = 20 + pick(20);
    const request = trial.request({ pool: { first: 0, last: 1 }, holder: on(host), window });
    const answer = await registry.claim(request);
    if (answer.outcome !== "granted") {
      await trial.pause(10);
      continue;
    }
    const held = grantedClaim(request, answer);
    const { workerId, fence, from } = answer;
    let { until } = answer;
    await trial.pause(pick(30));
    const renewal = await trial.renew(held, { registry, window });
    if (renewal.outcome === "renewed") {
      ({ until } = renewal);
      const used = { until: from + pick(until - from + 1) };
      const giveBack = pick(2) === 0 && (await trial.release(held, used, { registry })).outcome === "released";
      if (giveBack) ({ until } = used);
    }
    spans.push({ workerId, fence, from, until });
  }
  return spans;
}

/** The rule itself, for any order of requests. */
export const overlaps: readonly ConformanceCheck[] = [
  check("the windows granted for a worker ID never overlap, after any sequence of requests", async (trial) => {
    for (const seed of [1, 2]) {
      const walk = new RandomWalk(trial, seeded(seed));
      for (let i = 0; i < stepsPerWalk; i++) await walk.step();
      await walk.compare();
      // The next walk expects unused worker IDs: wait until no window is open.
      await trial.pause(200);
    }
  }),

  check("the windows granted for a worker ID never overlap, with competing hosts", async (trial) => {
    const competitors = ["alpha", "alpha", "beta", "gamma"];
    const used = await trial.concurrently(competitors.length, (registry, i) => {
      return compete(trial, registry, competitors[i] ?? "", seeded(i));
    });
    const spans = used.flat().toSorted((a, b) => a.workerId - b.workerId || a.fence - b.fence);
    ensure(spans.length > 4, "several claims to be granted", spans.length);
    for (const [i, span] of spans.entries()) {
      const next = spans[i + 1];
      if (next === undefined || next.workerId !== span.workerId) continue;
      ensure(next.fence > span.fence, "fences that rise", [span, next]);
      ensure(next.from >= span.until, "windows that do not overlap", [span, next]);
    }
  }),
];
