import type { Clock } from "../../src/clock.ts";
import { type Era, firstEra, type NamespaceState, nextEra, openedEra } from "../../src/rule/era.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { grantOf } from "../../src/rule/pool.ts";
import { decideClaim } from "../support/decide-claim.ts";
import { readReceipt } from "../../src/rule/receipt.ts";
import {
  type ClaimRequest,
  type ForceReleased,
  type ForceReleaseRequest,
  type Grant,
  type Lost,
  type Refusal,
  type Registry,
  type Released,
  type ReleaseRequest,
  type Renewal,
  type RenewRequest,
} from "../../src/rule/registry.ts";
import { assumedLimits, checkLimits, defaultLimits, type NamespaceInfo } from "../../src/rule/limits.ts";
import { checkQuarantine, quarantineError } from "../../src/rule/quarantine.ts";
import { storedToken } from "../../src/rule/token.ts";
import { decideRelease, decideRenewal, isInQuarantine, recalledEra, type Verdict } from "../../src/rule/verdict.ts";
import { checkClaim, forced, forceRefusal, type Stored } from "../../src/rule/window.ts";
import { MemoryRecords } from "../../src/registries/memory/records.ts";
import type { Tally } from "./events.ts";
import type { Random } from "./world.ts";

/** As much of a registry as a lease asks for. */
export interface Leasing extends Pick<Registry, "claim" | "renew" | "release" | "forceRelease" | "takeBlocks"> {
  /** How long its quarantine still lasts, ms; 0 or nothing where there is none. */
  readonly quarantine?: number;
  /** Where the last request found it, and left it; nothing for a store that never forgets. */
  readonly standing?: Standing | undefined;
  /** Whether it was ever put back, or has another one beside it. */
  readonly hasForgotten?: boolean;
  /** Whether a copy of it answers beside it: they begin quarantines for ever. */
  readonly isDouble?: boolean;
}

/** What a store does; the broken ones differ here. */
export interface Rules {
  /** Whether it takes the server that asks for the one that wrote last. */
  readonly isSame: (writer: number, server: number) => boolean;
  /** Whether a decision may be acted on: what it was made of still stands. `isEvidence`: it begins an era. */
  readonly stands: (isUnchanged: boolean, isEvidence: boolean) => boolean;
  readonly decideClaim: typeof decideClaim;
  readonly decideRenewal: typeof decideRenewal;
  readonly decideRelease: typeof decideRelease;
  readonly recalledEra: typeof recalledEra;
  readonly nextEra: typeof nextEra;
  readonly openedEra: typeof openedEra;
}

export const rules: Rules = {
  isSame: (writer, server) => writer === server,
  stands: (isUnchanged) => isUnchanged,
  decideClaim,
  decideRenewal,
  decideRelease,
  recalledEra,
  nextEra,
  openedEra,
};

/** All that a store holds after one of its writes, and so all that a copy of it can bring back. */
export interface Content extends Era {
  /** Rises with each write of the history, whichever store makes it. */
  readonly serial: number;
  /** What it held before that write. */
  readonly past: Content | undefined;
  readonly depth: number;
  /** The write with which its era began. */
  readonly began: number;
  /** The server that wrote last; undefined in an empty store. */
  readonly writer?: number | undefined;
  readonly info?: NamespaceInfo | undefined;
  readonly records: ReadonlyMap<number, Stored>;
}

/** A store before and after a request. */
export interface Standing {
  readonly before: Content;
  readonly after: Content;
}

const nothing: Content = {
  serial: 0,
  past: undefined,
  depth: 0,
  began: 0,
  era: "0-0",
  quarantineEnd: 0,
  opensAt: 0,
  records: new Map(),
};

/** Whether a store with this content knows what was written with that one. */
export function knows(content: Content, written: Content): boolean {
  let each: Content | undefined = content;
  while (each !== undefined && each.depth > written.depth) each = each.past;
  return each === written;
}

/** Tries of a request whose reads lag. */
const tries = 3;
/** How often a read lags, and each time by one more write. */
const lag = 0.4;
/** Of the last few writes, so many are forgotten as a rule. */
const fewWrites = 8;

/**
 * A store that may forget: the core's decisions on records in memory, and what every adapter of a server does around them that may
 * be restored or replaced. It may lag, and a copy of it may live on beside it.
 */
export class Store implements Leasing {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #rules: Rules;
  readonly #tally: Tally;
  readonly #lags: boolean;
  readonly #accuse: (what: string) => void;
  #server = 1;
  #serial = 0;
  #marks = 0;
  /** One, or two behind one address. */
  readonly #sides: Content[] = [{ ...nothing, writer: 1 }];
  #side = 0;
  #before: Content = nothing;
  /** Every content that there was. */
  readonly #copies: Content[] = [];
  /** Whether some of it was ever forgotten. */
  #hasForgotten = false;

  constructor(
    clock: Clock,
    random: Random,
    tally: Tally,
    accuse: (what: string) => void,
    lags: boolean,
    kept: Rules = rules,
  ) {
    this.#clock = clock;
    this.#random = random;
    this.#tally = tally;
    this.#accuse = accuse;
    this.#lags = lags;
    this.#rules = kept;
  }

  /** Another server takes its place, which has less: the same one after a crash, a replica that lagged, a backup. */
  forget(random: Random): void {
    const lost = random.pick(["last", "last", "older", "older", "all"] as const);
    this.#choose();
    const { depth } = this.#content;
    this.#hasForgotten = true;
    if (lost === "all" || depth === 0) {
      this.#sides[this.#side] = { ...nothing };
      this.#tally.count("store that lost everything");
    } else {
      const missing = lost === "last" ? random.between(0, 3) : random.between(3, depth);
      let copy: Content = this.#content;
      for (let i = 0; i < missing; i++) copy = copy.past ?? copy;
      this.#sides[this.#side] = copy;
      const event = lost === "last" ? "store that lost its last writes" : "store restored from an older copy";
      this.#tally.count(event);
    }
    this.#server++;
  }

  /** An earlier copy of it is put back in place. It cannot know. */
  putBack(random: Random): void {
    this.#choose();
    const copy = this.#copy(random);
    if (copy === undefined) return;
    this.#hasForgotten = true;
    this.#tally.count(this.quarantine > 0 ? "store put back in a quarantine" : "store put back");
    if (copy.era !== this.#content.era) this.#tally.count("store put back to another era");
    this.#keep({ ...copy, writer: this.#server }, copy.began, copy);
  }

  /** A copy of it answers beside it. */
  fork(random: Random): void {
    const copy = random.chance(0.5) ? this.#content : this.#copy(random);
    if (copy?.info === undefined || this.#sides.length > 1) return;
    this.#hasForgotten = true;
    this.#tally.count("two stores behind one address");
    this.#side = this.#sides.push(copy) - 1;
    this.#keep({ ...copy, writer: this.#server }, copy.began, copy);
  }

  /** An operator ends the quarantine. `isTrue`: whether every window has passed of which a store with this content knows nothing. */
  endQuarantine(isTrue: (content: Content, clock: number) => boolean): void {
    const clock = this.#clock.now();
    const { info, opensAt } = this.#content;
    if (this.#sides.length > 1 || info === undefined || clock >= opensAt || !isTrue(this.#content, clock)) return;
    this.#tally.count("quarantine that an operator ended");
    this.#keep({ ...this.#content, ...this.#rules.openedEra(stateOf(this.#content, clock)) }, this.#content.began);
  }

  get isDouble(): boolean {
    return this.#sides.length > 1;
  }

  get hasForgotten(): boolean {
    return this.#hasForgotten;
  }

  get quarantine(): number {
    return Math.max(0, ...this.#sides.map(({ opensAt }) => opensAt - this.#clock.now()));
  }

  get standing(): Standing {
    return { before: this.#before, after: this.#content };
  }

  async claim(asked: ClaimRequest): Promise<Grant | Refusal | Lost> {
    this.#choose();
    const clock = this.#clock.now();
    const request = { ...asked, token: storedToken(asked.token) };
    if (this.#open(clock).info === undefined) this.#create(request, clock);
    this.#recall(request, clock);
    const now = this.#content;
    const state = stateOf(now, clock);
    this.#countRefusal(state);
    checkQuarantine(state, request.namespace, title);
    checkLimits(request.namespace, request.limits ?? {}, state.info);
    checkClaim(request, clock, state.info);
    const records = new MemoryRecords();
    for (const record of now.records.values()) records.put(record);
    const { answer, store } = this.#rules.decideClaim(records, request, state);
    if (answer.outcome !== "granted" || store === undefined) return answer;
    this.#write(now, store);
    return grantOf(state, store, answer.rollback);
  }

  async renew(asked: RenewRequest): Promise<Renewal | Lost> {
    const request = { ...asked, token: storedToken(asked.token) };
    const { workerId } = request;
    const mark = (): string => this.#mark();
    const before = (content: Content): Stored | undefined => content.records.get(workerId);
    return this.#decide(workerId, (seen, clock) => {
      const verdict = this.#rules.decideRenewal(stateOf(seen, clock), before(seen), request, mark);
      const isOlder = verdict.record !== undefined && before(seen)?.era !== verdict.record.era;
      if (isOlder) this.#tally.count("renewal through a quarantine");
      return verdict;
    });
  }

  async release(asked: ReleaseRequest): Promise<Released | Lost> {
    const request = { ...asked, token: storedToken(asked.token) };
    const { workerId } = request;
    const mark = (): string => this.#mark();
    return this.#decide(workerId, (seen, clock) => {
      const before = seen.records.get(workerId);
      const verdict = this.#rules.decideRelease(stateOf(seen, clock), before, request, mark);
      if (verdict.record !== undefined && before?.era !== seen.era) this.#tally.count("give-back from an older era");
      return verdict;
    });
  }

  async forceRelease(request: ForceReleaseRequest): Promise<ForceReleased> {
    this.#choose();
    const clock = this.#clock.now();
    const now = this.#open(clock);
    const before = now.records.get(request.workerId);
    const refusal = forceRefusal(before, request, clock);
    if (refusal !== undefined || before === undefined) return refusal ?? { outcome: "absent" };
    const after = forced(before, clock, false);
    this.#write(now, after);
    return { outcome: "released", until: after.until };
  }

  get #content(): Content {
    return this.#sides[this.#side] ?? nothing;
  }

  /** Which of two stores a request reaches. */
  #choose(): void {
    if (this.#sides.length > 1) this.#side = this.#random.below(this.#sides.length);
    this.#before = this.#content;
  }

  /** What it holds; where another server wrote that, a new era begins. */
  #open(clock: number): Content {
    const { writer, info = assumedLimits } = this.#content;
    if (writer === undefined || !this.#rules.isSame(writer, this.#server)) {
      const era = this.#rules.nextEra(this.#content, clock, info, () => this.#mark());
      this.#begin(era);
    }
    return this.#content;
  }

  #create({ layout, limits }: ClaimRequest, clock: number): void {
    const now = this.#content;
    const info = { ...defaultLimits, ...limits, id: this.#mark().padStart(32, "0"), layout };
    const isFirst = now.began === 0;
    this.#keep({ ...now, ...(isFirst && firstEra(clock, () => this.#mark())), info }, now.began);
  }

  #recall({ recall: text }: ClaimRequest, clock: number): void {
    const recall = readReceipt(text);
    if (recall === undefined) return;
    this.#tally.count("claim with a recall");
    const { workerId } = recall;
    for (let left = tries; left > 0; left--) {
      const seen = this.#read();
      const record = seen.records.get(workerId);
      const begins = this.#rules.recalledEra(stateOf(seen, clock), record, recall, () => this.#mark());
      if (begins === undefined) return;
      if (!this.#stands(seen, workerId, true)) continue;
      this.#tally.count("quarantine by a recall");
      return this.#begin(begins);
    }
    throw unavailable();
  }

  /** Decides on what it reads, which may lag, and acts on it only where that still stands. */
  #decide<Answer extends { readonly outcome: string }>(
    workerId: number,
    decide: (seen: Content, clock: number) => Verdict<Answer | Lost>,
  ): Answer | Lost {
    this.#choose();
    const clock = this.#clock.now();
    this.#open(clock);
    for (let left = tries; left > 0; left--) {
      const seen = this.#read();
      const { begins, record, answer } = decide(seen, clock);
      const isForgotten = answer.outcome === "lost" && (answer as Lost).reason === "forgotten";
      const acts = begins !== undefined || record !== undefined || isForgotten;
      if (acts && !this.#stands(seen, workerId, begins !== undefined)) continue;
      if (begins !== undefined) {
        this.#tally.count("quarantine by a receipt");
        this.#begin(begins);
      }
      if (record !== undefined) this.#write(this.#content, record);
      if (isForgotten) this.#tally.count("holder of a forgotten window");
      if (!isInQuarantine(answer)) return answer;
      this.#countRefusal({ ...answer, clock });
      throw quarantineError(title, answer);
    }
    throw unavailable();
  }

  /** What a read finds: where it lags, the content of a while ago. */
  #read(): Content {
    let seen = this.#content;
    while (this.#lags && seen.past?.info !== undefined && this.#random.chance(lag)) seen = seen.past;
    return seen;
  }

  #stands(seen: Content, workerId: number, isEvidence: boolean): boolean {
    const now = this.#content;
    const isUnchanged =
      seen === now || (seen.era === now.era && seen.records.get(workerId) === now.records.get(workerId));
    if (!isUnchanged) this.#tally.count("decision on a lagging read");
    return this.#rules.stands(isUnchanged, isEvidence);
  }

  #countRefusal({ clock, opensAt }: Pick<NamespaceState, "clock" | "opensAt">): void {
    if (clock < opensAt) this.#tally.count("refusal in quarantine");
  }

  /** An earlier copy: of a few writes ago, or any. */
  #copy(random: Random): Content | undefined {
    if (random.chance(0.6)) {
      let copy: Content = this.#content;
      for (let missing = random.between(1, fewWrites); missing > 0; missing--) copy = copy.past ?? copy;
      if (copy.info !== undefined) return copy;
    }
    const copies = this.#copies.filter(({ info }) => info !== undefined);
    return copies.length === 0 ? undefined : random.pick(copies);
  }

  #mark(): string {
    return (++this.#marks).toString(16).padStart(8, "0");
  }

  #begin(era: Era): void {
    if (!this.#hasForgotten) this.#accuse("A store that forgot nothing began a quarantine.");
    this.#keep({ ...this.#content, ...era, writer: this.#server }, this.#serial + 1);
  }

  #write(now: Content, record: Stored): void {
    this.#keep({ ...now, records: new Map(now.records).set(record.workerId, record) }, now.began);
  }

  #keep(content: Content, began: number, past: Content = this.#content): void {
    const kept = { ...content, past, depth: past.depth + 1, serial: ++this.#serial, began };
    if (past === this.#content && kept.quarantineEnd < past.quarantineEnd)
      this.#accuse("The end of a quarantine sank.");
    this.#copies.push(kept);
    this.#sides[this.#side] = kept;
  }
}

const title = "The store of this simulation";

function unavailable(): SnowleaseError {
  return new SnowleaseError("REGISTRY_UNAVAILABLE", "Others were faster in this simulation.");
}

function stateOf(content: Content, clock: number): NamespaceState {
  const { era, quarantineEnd, opensAt, info = { layout: "", ...assumedLimits } } = content;
  return { era, quarantineEnd, opensAt, info, clock };
}
