import type { Layout } from "../../src/id/layout.ts";
import type { Grant, ReleaseRequest, RenewRequest, Renewal } from "../../src/rule/registry.ts";
import type { Tally } from "./events.ts";
import type { Leasing } from "./store.ts";

/** The family that comes when all others are dead. */
export const last = 0;

/** A window as the store acknowledged it. A holder whose window begins anew after a quarantine has one more. */
interface Window {
  readonly token: string;
  /** The process that asked; its threads and children make IDs in the same window. */
  readonly family: number;
  readonly fence: number;
  readonly floor: number;
  readonly from: number;
  until: number;
  /** Its holder gave it back. */
  released: boolean;
}

/**
 * Sees every acknowledged write of the store, right where it is made, and every ID; forgets nothing. Says what must never happen:
 * an ID twice, one outside of its maker's windows, windows that overlap, a fence that did not rise.
 */
export class Judge {
  readonly #layout: Layout;
  readonly #tally: Tally;
  readonly #sought: RegExp;
  readonly #makers = new Map<bigint, number>();
  /** Of each worker ID, in the order of their grants. */
  readonly #windows = new Map<number, Window[]>();
  readonly #families = new Map<string, number>();
  readonly #newest = new Map<number, string>();
  #store: Leasing | undefined;
  /** The latest that the store's clock has shown. */
  latest = 0;
  violation: string | undefined;

  /** @param sought which violations count. */
  constructor(layout: Layout, tally: Tally, sought: RegExp) {
    this.#layout = layout;
    this.#tally = tally;
    this.#sought = sought;
  }

  accuse(what: string): void {
    if (this.#sought.test(what)) this.violation ??= what;
  }

  /** Notes whose token this is. */
  introduce(token: string, family: number): string {
    this.#families.set(token, family);
    this.#newest.set(family, token);
    return token;
  }

  /** The store, with the judge looking on. */
  watch(store: Leasing): Leasing {
    this.#store = store;
    return {
      claim: async (request) => {
        const answer = await store.claim(request);
        this.latest = Math.max(this.latest, answer.clock);
        if (answer.outcome === "granted") this.#granted(request.token, answer);
        return answer;
      },
      renew: async (request) => {
        const answer = await store.renew(request);
        if (answer.outcome === "renewed") this.#renewed(request, answer);
        return answer;
      },
      release: async (request) => {
        const answer = await store.release(request);
        if (answer.outcome === "released") this.#released(request);
        return answer;
      },
      forceRelease: (request) => store.forceRelease(request),
    };
  }

  /** An ID was made. */
  made(id: bigint, family: number, maker: number): void {
    const { timestamp, workerId } = this.#layout.decompose(id);
    const before = this.#makers.get(id);
    if (before !== undefined) this.accuse(`ID ${id} was made by holder ${before} and again by holder ${maker}.`);
    this.#makers.set(id, maker);
    if ((this.#store?.quarantine ?? 0) > 0) this.#tally.count("ID during a quarantine");
    const end = timestamp + this.#layout.tick;
    const window = this.#of(workerId).findLast(
      (each) => each.family === family && timestamp >= each.floor && end <= each.until,
    );
    if (window === undefined) this.accuse(`ID ${id} was made by holder ${maker} outside of its windows.`);
    else if (timestamp < window.from) this.#tally.count("ID by what was inherited");
  }

  #of(workerId: number): Window[] {
    const known = this.#windows.get(workerId);
    if (known !== undefined) return known;
    const windows: Window[] = [];
    this.#windows.set(workerId, windows);
    return windows;
  }

  #granted(token: string, { workerId, fence, from, until, recents }: Grant): void {
    const windows = this.#of(workerId);
    const repeated = windows.findLast((window) => window.token === token && window.fence === fence);
    if (repeated !== undefined) {
      if (repeated.from !== from) this.accuse(`The window of a repeated claim of worker ${workerId} moved.`);
      return;
    }
    for (const { fence: older } of windows) {
      if (older >= fence) this.accuse(`Fence ${fence} of worker ${workerId} does not rise above ${older}.`);
    }
    const family = this.#families.get(token) ?? last;
    if (windows.at(-1)?.released === false && family !== last) this.#tally.count("claim that took over");
    this.#open(workerId, { token, family, fence, floor: recents?.from ?? from, from, until, released: false });
  }

  #renewed({ workerId, fence, token }: RenewRequest, { from, until, clock }: Renewal): void {
    this.latest = Math.max(this.latest, clock);
    const window = this.#of(workerId).findLast((each) => each.token === token && each.fence === fence);
    if (window === undefined) this.accuse(`A claim of worker ${workerId} was renewed that was never granted.`);
    else if (from > window.from) this.#open(workerId, { ...window, floor: from, from, until });
    else {
      window.until = Math.max(window.until, until);
      this.#compare(workerId, window);
    }
  }

  /** What is given back is nobody's until it is granted again. */
  #released({ workerId, fence, token, clock, used }: ReleaseRequest): void {
    const window = this.#of(workerId).findLast((each) => each.token === token && each.fence === fence);
    if (window === undefined) return;
    window.released = true;
    if (used === undefined) return;
    window.until = Math.min(window.until, used.until);
    if (used.until > clock + this.#layout.tick) this.#tally.count("give-back ahead of the clock");
    if (this.#newest.get(window.family) !== token) this.#tally.count("late give-back after a switch");
  }

  #open(workerId: number, window: Window): void {
    this.#of(workerId).push(window);
    this.#compare(workerId, window);
  }

  #compare(workerId: number, { fence, from, until }: Window): void {
    for (const other of this.#of(workerId)) {
      if (other.fence === fence || other.from >= until || from >= other.until) continue;
      this.accuse(
        `Windows of worker ${workerId} overlap: [${other.from}, ${other.until}) of fence ${other.fence} and [${from}, ${until}) of fence ${fence}.`,
      );
    }
  }
}
