import type { Layout } from "../../src/id/layout.ts";
import { isSnowleaseError } from "../../src/id/errors.ts";
import { readReceipt, type Receipt } from "../../src/rule/receipt.ts";
import type { Grant, Lost, ReleaseRequest, RenewRequest, Renewal } from "../../src/rule/registry.ts";
import type { Tally } from "./events.ts";
import { type Content, knows, type Leasing, type Standing } from "./store.ts";

/** The family that begins when all others are dead. */
export const last = 0;

/** An acknowledged grant or renewal. */
interface Write {
  readonly until: number;
  readonly receipt: string | undefined;
  /** The store's content after it; undefined for a store that never forgets. */
  readonly content: Content | undefined;
}

/** A window as the store acknowledged it. A holder whose window begins again after a quarantine has one more. */
interface Window {
  readonly token: string;
  /** The processes that asked; their threads and children make IDs in the same window. More than one if a process was copied. */
  readonly families: ReadonlySet<number>;
  readonly fence: number;
  readonly floor: number;
  readonly from: number;
  until: number;
  readonly writes: Write[];
  /** The family that gave it back. */
  releasedBy: number | undefined;
  /** Where it ended then. */
  end: number;
  /** The content of the store that took it back. */
  takenBack: Content | undefined;
  /** Each give-back, even if the store may have forgotten it: the content after it, and where the window ended. */
  readonly givenBack: { readonly content: Content | undefined; readonly end: number }[];
}

/** An ID as it was made. */
interface Making {
  readonly maker: number;
  readonly window: Window | undefined;
  readonly end: number;
  /** How many answers its family had received. */
  readonly heard: number;
  /** Its maker is a copy, or was copied, and no answer has parted the two yet. */
  readonly isDoubled: boolean;
}

/**
 * The end of a holder's possible usage, if another claim got the same times and is over, and the store's state when the
 * holder learned of that.
 */
interface Closing {
  readonly end: number;
  readonly content: Content;
}

/** The state of a process when it was copied. */
interface Doubled {
  readonly token: string;
  /** Its drawn turn, without an answer. */
  readonly turn: string | undefined;
  /** Whether that was drawn after its window had passed. */
  readonly isLate: boolean;
  readonly until: number;
}

/**
 * Sees every acknowledged write of the store when it is made, every answer to a holder, and every ID; forgets nothing.
 * Reports violations: an ID twice, one outside its maker's windows, overlapping windows, a fence that did not rise, a
 * restore that is not found, a quarantine without a cause.
 */
export class Judge {
  readonly #layout: Layout;
  readonly #tally: Tally;
  readonly #sought: RegExp;
  readonly #made = new Map<bigint, Making>();
  /** Of each worker ID, in the order of their grants. */
  readonly #windows = new Map<number, Window[]>();
  readonly #families = new Map<string, Set<number>>();
  readonly #newest = new Map<number, string>();
  readonly #receipts = new Map<string, Write[]>();
  /** Of each worker ID. */
  readonly #closings = new Map<number, Closing[]>();
  /** The state of the store at an answer. */
  readonly #answered = new WeakMap<object, Content>();
  /** The same for the answers that each family has received. */
  readonly #heard = new Map<number, Content[]>();
  readonly #doubled = new Map<number, Doubled>();
  readonly #copied = new Set<number>();
  #store: Leasing | undefined;
  /** The latest time that the store's clock has shown. */
  latest = 0;
  violation: string | undefined;

  /** @param sought the violations that count. */
  constructor(layout: Layout, tally: Tally, sought: RegExp) {
    this.#layout = layout;
    this.#tally = tally;
    this.#sought = sought;
  }

  readonly accuse = (what: string): void => {
    if (this.#sought.test(what)) this.violation ??= what;
  };

  /** Notes the family of this token. */
  introduce(token: string, family: number): void {
    const families = this.#families.get(token) ?? new Set();
    this.#families.set(token, families.add(family));
    this.#newest.set(family, token);
  }

  /** A process was copied with its whole state. */
  copied(original: number, copy: number, state: Doubled): void {
    for (const families of this.#families.values()) if (families.has(original)) families.add(copy);
    this.#heard.set(copy, [...(this.#heard.get(original) ?? [])]);
    for (const family of [original, copy]) {
      this.#doubled.set(family, state);
      this.#copied.add(family);
    }
  }

  /** Whether this family has no living copy; a restored store may take a late message for a copy's, and cost one its lease. */
  wasNeverCopied(family: number): boolean {
    return !this.#copied.has(family) && this.#store?.hasForgotten !== true;
  }

  /** Whether this family was copied, or is a copy: the other one may have reported ticks that this one does not know. */
  isCopied(family: number): boolean {
    return this.#copied.has(family);
  }

  /** Whether a restored store granted this claim once more: its holder knows only the first window. */
  isGrantedAnew(token: string): boolean {
    const windows = [...this.#windows.values()].flat().filter((window) => window.token === token);
    return this.#store?.hasForgotten === true && windows.length > 1;
  }

  /** A holder receives an answer to its renewal. */
  heard(family: number, request: RenewRequest, answer: unknown): void {
    const content = typeof answer === "object" && answer !== null ? this.#answered.get(answer) : undefined;
    if (content !== undefined) this.#heardBy(family).push(content);
    const doubled = this.#doubled.get(family);
    if (doubled?.token !== request.token || answer instanceof Error) return;
    // Both copies have a turn that was drawn before; with it, both may get answers until the window passes.
    const isBefore = request.nextTurn === doubled.turn && (doubled.isLate || request.clock < doubled.until);
    if (!isBefore) this.#doubled.delete(family);
  }

  /** Whether all windows have passed that a store with this content does not know. */
  hasForgottenNothingOpen(content: Content, clock: number): boolean {
    const windows = [...this.#windows.values()].flat();
    return windows.every(({ writes, end }) =>
      writes.every(
        (write) => Math.min(write.until, end) <= clock || write.content === undefined || knows(content, write.content),
      ),
    );
  }

  /** The store, observed by the judge. */
  watch(store: Leasing): Leasing {
    this.#store = store;
    return {
      claim: async (request) => {
        const asked = store.claim(request);
        const { standing } = store;
        const recall = readReceipt(request.recall);
        this.#compareEras(standing, recall, request.recall);
        const answer = await asked;
        if (answer.outcome === "lost") return answer;
        this.latest = Math.max(this.latest, answer.clock);
        if (answer.outcome !== "granted") return answer;
        if (standing !== undefined && this.#isForgotten(standing.before, recall, request.recall)) {
          this.accuse(
            `The store forgot a renewal of worker ${recall?.workerId}, and grants to a claimer that recalls it.`,
          );
        }
        this.#granted(request.token, answer, standing?.after);
        return answer;
      },
      renew: async (request) => {
        const asked = store.renew(request);
        const { standing } = store;
        const receipt = readReceipt(request.receipt);
        this.#compareEras(standing, receipt, request.receipt);
        const answer = await asked.catch((error: unknown) => {
          if (standing !== undefined && isSnowleaseError(error, "QUARANTINE"))
            this.#answered.set(error, standing.after);
          throw error;
        });
        if (standing !== undefined) {
          this.#answered.set(answer, standing.after);
          const isFound = answer.outcome === "lost" && answer.reason === "forgotten";
          if (!isFound && this.#isForgotten(standing.before, receipt, request.receipt)) {
            this.accuse(
              `The store forgot a renewal of worker ${request.workerId}, and its holder's next one is ${answer.outcome}.`,
            );
          }
        }
        if (answer.outcome === "renewed") this.#renewed(request, answer, standing?.after);
        if (answer.outcome === "lost") this.#closed(request.workerId, answer, receipt?.until, standing);
        return answer;
      },
      release: async (request) => {
        const asked = store.release(request);
        const { standing } = store;
        this.#compareEras(standing, readReceipt(request.receipt), request.receipt);
        const answer = await asked;
        if (answer.outcome === "released") this.#released(request, standing);
        else this.#closed(request.workerId, answer, request.used?.until, standing);
        return answer;
      },
      forceRelease: (request) => store.forceRelease(request),
      describe: (namespace) => store.describe(namespace),
      dropNamespace: async (request) => (await store.dropNamespace?.(request)) ?? {},
    };
  }

  /** An ID was made. */
  made(id: bigint, family: number, maker: number): void {
    const { timestamp, workerId } = this.#layout.decompose(id);
    if ((this.#store?.quarantine ?? 0) > 0) this.#tally.count("ID during a quarantine");
    const end = timestamp + this.#layout.tick;
    const isDoubled = this.#doubled.has(family);
    const window = this.#of(workerId).findLast(
      (each) =>
        each.families.has(family) &&
        timestamp >= each.floor &&
        end <= each.until &&
        // A copy does not learn that the other one has given it back, to a store that may have forgotten which answer parted them.
        (end <= each.end || (isDoubled && each.releasedBy !== family) || this.#isForgottenAtItsEnd(each, family, end)),
    );
    const making = { maker, window, end, heard: this.#heardBy(family).length, isDoubled };
    const before = this.#made.get(id);
    if (before !== undefined) this.#compareMakings(id, before, making);
    this.#made.set(id, making);
    if (window === undefined) this.accuse(`ID ${id} was made by holder ${maker} outside of its windows.`);
    else if (timestamp < window.from) this.#tally.count("ID by what was inherited");
  }

  /** Whether the store that took a window back had forgotten its length, and this family was copied. */
  #isForgottenAtItsEnd({ writes, takenBack }: Window, family: number, end: number): boolean {
    if (takenBack === undefined || !this.#copied.has(family)) return false;
    return writes.some(({ until, content }) => content !== undefined && end <= until && !knows(takenBack, content));
  }

  #compareMakings(id: bigint, before: Making, after: Making): void {
    if (isOfCopies(before, after) || isOfCopies(after, before)) {
      return this.#tally.count("ID twice by copies");
    }
    const [first, second] = [this.#grantsOf(before), this.#grantsOf(after)];
    const isExcused =
      first.length > 0 &&
      second.length > 0 &&
      !isRespected(first, second) &&
      !isRespected(second, first) &&
      !this.#isTold(before, first, second) &&
      !this.#isTold(after, second, first);
    if (isExcused) this.#tally.count("ID twice by a forgotten window");
    else this.accuse(`ID ${id} was made by holder ${before.maker} and again by holder ${after.maker}.`);
  }

  /** The store's content after each write that let the maker make it. */
  #grantsOf({ window, end }: Making): readonly Content[] {
    return window?.writes.filter(({ until }) => end <= until).flatMap(({ content }) => content ?? []) ?? [];
  }

  /** Whether the maker had an answer of a store that knew the other one's window, but not its own. */
  #isTold({ maker, heard }: Making, own: readonly Content[], others: readonly Content[]): boolean {
    const answers = this.#heardBy(maker).slice(0, heard);
    const [granted] = own;
    return answers.some(
      (content) =>
        content.serial > (granted?.serial ?? 0) &&
        others.some((other) => knows(content, other)) &&
        !own.some((each) => knows(content, each)),
    );
  }

  #heardBy(family: number): Content[] {
    const heard = this.#heard.get(family);
    if (heard !== undefined) return heard;
    const none: Content[] = [];
    this.#heard.set(family, none);
    return none;
  }

  #of(workerId: number): Window[] {
    const known = this.#windows.get(workerId);
    if (known !== undefined) return known;
    const windows: Window[] = [];
    this.#windows.set(workerId, windows);
    return windows;
  }

  #granted(token: string, { workerId, fence, from, until, recents, receipt }: Grant, content?: Content): void {
    const windows = this.#of(workerId);
    const write = this.#noted({ until, receipt, content });
    const repeated = windows.findLast(
      (window) => window.token === token && window.fence === fence && isKnown(window, content),
    );
    if (repeated !== undefined) {
      if (repeated.from !== from) this.accuse(`The window of a repeated claim of worker ${workerId} moved.`);
      const isRenewed = repeated.writes.some(
        (each) => (readReceipt(each.receipt)?.renewals ?? 0) > 0 && isKnown({ writes: [each] }, content),
      );
      if (isRenewed) this.accuse(`A claim of worker ${workerId} was repeated after its renewal.`);
      return;
    }
    for (const other of windows) {
      const { fence: older } = other;
      if (older >= fence && knownEnd(other, content) > 0) {
        this.accuse(`Fence ${fence} of worker ${workerId} does not rise above ${older}.`);
      }
    }
    for (const { end, content: told } of this.#closings.get(workerId) ?? []) {
      if (content === undefined || !knows(content, told) || (recents?.from ?? from) >= end) continue;
      this.accuse(`Worker ${workerId} is granted from ${from}, and a holder that is lost used it up to ${end}.`);
    }
    const families = this.#families.get(token) ?? new Set([last]);
    const isTakeOver = windows.length > 0 && windows.at(-1)?.releasedBy === undefined;
    if (isTakeOver && !families.has(last)) this.#tally.count("claim that took over");
    const floor = recents?.from ?? from;
    const open = {
      token,
      families,
      fence,
      floor,
      from,
      until,
      writes: [write],
      releasedBy: undefined,
      end: Infinity,
      takenBack: undefined,
      givenBack: [],
    };
    this.#open(workerId, open);
  }

  #renewed({ workerId, fence, token }: RenewRequest, answer: Renewal, content?: Content): void {
    const { from, until, clock, receipt } = answer;
    this.latest = Math.max(this.latest, clock);
    const windows = this.#of(workerId).filter((each) => each.token === token && each.fence === fence);
    // A restored store may renew the window from before a quarantine that it forgot.
    const window = windows.findLast((each) => each.from === from) ?? windows.at(-1);
    const write = this.#noted({ until, receipt, content });
    if (window === undefined) this.accuse(`A claim of worker ${workerId} was renewed that was never granted.`);
    else if (from !== window.from) {
      this.#open(workerId, {
        ...window,
        floor: from,
        from,
        until,
        writes: [write],
        releasedBy: undefined,
        end: Infinity,
        takenBack: undefined,
        givenBack: [],
      });
    } else {
      // A copy gave it back, and the store forgot that.
      [window.releasedBy, window.end, window.takenBack] = [undefined, Infinity, undefined];
      window.until = Math.max(window.until, until);
      window.writes.push(write);
      this.#compare(workerId, window, content);
    }
  }

  /** A given-back window belongs to no holder until it is granted again. */
  #released({ workerId, fence, token, clock, used }: ReleaseRequest, standing?: Standing): void {
    const window = this.#of(workerId).findLast((each) => each.token === token && each.fence === fence);
    if (window === undefined) return;
    const family = [...window.families].at(0) ?? last;
    window.releasedBy ??= window.families.size > 1 ? last : family;
    window.takenBack = standing?.before;
    window.givenBack.push({ content: standing?.after, end: used?.until ?? Infinity });
    if (used === undefined) return;
    // The report of one of two copies ends the other one's window only if the store uses it.
    const stored = window.families.size > 1 ? standing?.after.records.get(workerId)?.until : undefined;
    const end = Math.max(used.until, stored ?? 0);
    // A restored store granted a repeated claim again: both windows belong to this one.
    for (const each of this.#of(workerId)) {
      if (each.token === token) each.end = Math.min(each.end, end);
    }
    window.end = Math.min(window.end, end);
    if (used.until > clock + this.#layout.tick) this.#tally.count("give-back ahead of the clock");
    if (this.#newest.get(family) !== token) this.#tally.count("late give-back after a switch");
  }

  /** A holder learns that another claim got times that it used up to `end`. */
  #closed(workerId: number, { doubt }: Lost, end?: number, standing?: Standing): void {
    if (doubt === undefined || end === undefined || standing === undefined) return;
    this.#tally.count("loss beside another claim");
    // A claim that stands goes on.
    if (standing.before.records.get(workerId)?.token !== undefined) return;
    const closing = { end, content: standing.after };
    this.#closings.set(workerId, [...(this.#closings.get(workerId) ?? []), closing]);
  }

  #noted(write: Write): Write {
    const { receipt } = write;
    if (receipt !== undefined) this.#receipts.set(receipt, [...(this.#receipts.get(receipt) ?? []), write]);
    return write;
  }

  #open(workerId: number, window: Window): void {
    this.#of(workerId).push(window);
    this.#compare(workerId, window, window.writes.at(-1)?.content);
  }

  #compare(workerId: number, { token, fence, from, until }: Window, content: Content | undefined): void {
    for (const other of this.#of(workerId)) {
      if ((other.fence === fence && content === undefined) || other.token === token) continue;
      const end = knownEnd(other, content);
      if (other.from >= until || from >= end) continue;
      this.accuse(
        `Windows of worker ${workerId} overlap: [${other.from}, ${end}) of fence ${other.fence} and [${from}, ${until}) of fence ${fence}.`,
      );
    }
  }

  /**
   * Whether a store with this content forgot the receipt's writes, so that it has to find that out: it knows none of the writes that
   * gave it, no quarantine has begun since, and neither a later claim nor late renewals hide it.
   */
  #isForgotten(content: Content, receipt: Receipt | undefined, text: string | undefined): boolean {
    if (receipt === undefined) return false;
    const writes = (this.#receipts.get(text ?? "") ?? []).flatMap(({ content: written }) => written ?? []);
    if (writes.length === 0) return false;
    if (writes.some((write) => knows(content, write) || write.serial < content.began)) return false;
    const { workerId, fence, token, renewals, era, until } = receipt;
    if (era !== content.era && until <= content.quarantineEnd) return false;
    const record = content.records.get(workerId);
    if (record === undefined || record.fence < fence) return true;
    if (record.fence > fence) return false;
    if (record.token !== undefined && record.token !== token) return true;
    return this.#renewalsIn(content, workerId, fence) < renewals;
  }

  /** How many renewals of this claim a store with this content knows. */
  #renewalsIn(content: Content, workerId: number, fence: number): number {
    const windows = this.#of(workerId).filter((window) => window.fence === fence);
    const writes = windows
      .flatMap(({ writes }) => writes)
      .filter((write) => write.content && knows(content, write.content));
    return Math.max(0, ...writes.map(({ receipt }) => readReceipt(receipt)?.renewals ?? 0));
  }

  /** Where a request began a quarantine that has a cause and is long enough. */
  #compareEras(standing: Standing | undefined, receipt: Receipt | undefined, text: string | undefined): void {
    if (standing === undefined || receipt === undefined) return;
    const { before, after } = standing;
    if (before.began === after.began) return;
    if (after.quarantineEnd < receipt.until) {
      this.accuse(
        `A quarantine ends at ${after.quarantineEnd}, before the window ${receipt.until} of the holder that showed it.`,
      );
    }
    const writes = (this.#receipts.get(text ?? "") ?? []).flatMap(({ content }) => content ?? []);
    // A later era than the store's own was forgotten with all its claims.
    const isEarlier = Number.parseInt(receipt.era, 10) < Number.parseInt(before.era, 10);
    const isCovered = isEarlier && writes.length > 0 && writes.every(({ serial }) => serial < before.began);
    if (isCovered && receipt.until <= before.quarantineEnd && before.writer === after.writer) {
      this.accuse("A quarantine began for what the last one covers.");
    }
  }
}

/** Whether the IDs come from two copies that no answer has parted, or from one copy and the next holder of the other's given-back window. */
function isOfCopies({ isDoubled, window }: Making, other: Making): boolean {
  if (!isDoubled || window === undefined) return false;
  return window.token === other.window?.token || window.givenBack.length > 0;
}

/** Whether a store that granted one window knew the grant of the other one, or had waited for it in a quarantine. */
function isRespected(grants: readonly Content[], later: readonly Content[]): boolean {
  const [first] = later;
  if (first === undefined) return false;
  return grants.some((grant) => grant.serial < first.serial && (knows(first, grant) || grant.serial < first.began));
}

/** Whether a store with this content knows part of a window. */
function isKnown({ writes }: Pick<Window, "writes">, content: Content | undefined): boolean {
  return content === undefined || writes.some((write) => write.content !== undefined && knows(content, write.content));
}

/** The end of a window, as far as a store with this content has to respect it; 0 if it does not. */
function knownEnd({ writes, end, givenBack }: Window, content: Content | undefined): number {
  const known = writes.filter(
    (write) =>
      content === undefined ||
      write.content === undefined ||
      knows(content, write.content) ||
      write.content.serial < content.began,
  );
  const ends = givenBack.filter((each) => content && each.content && knows(content, each.content));
  return Math.min(end, ...ends.map((each) => each.end), Math.max(0, ...known.map(({ until }) => until)));
}
