import { configInvalid, ignoreRefusal } from "../id/errors.ts";
import { type Clock, monotonic } from "../clock.ts";
import type { ClaimKey, ClaimRequest, Grant, Lost, Refusal, Registry } from "../rule/registry.ts";
import { BoundedMap } from "./bounded-map.ts";

/*
 * All addresses of a list must lead to one registry, because two registries would grant one worker ID twice. Each namespace has its own id.
 * So a claim asks all addresses for the id of its namespace.
 */

/** The id of a namespace at one address. Null: the namespace does not exist there. Undefined: the address did not answer that. */
export type NamespaceId = string | null | undefined;

/** The registry at one of several addresses. */
export interface ListedRegistry {
  /** For people. */
  readonly address: string;
  open(): Promise<Registry>;
}

/** Several addresses of a registry. */
export interface AddressList {
  readonly all: readonly ListedRegistry[];
  /** What all of them are, such as "members of one cluster". */
  readonly names: string;
}

/** A question to one address. */
interface Inquiry {
  readonly address: string;
  /** The place of the address in the list. */
  readonly place: number;
  readonly first: Promise<NamespaceId>;
  isAnswered: boolean;
  id: NamespaceId;
}

/** How long a claim that has its answer waits for the other addresses, ms. Later answers are compared when they come. */
const grace = 100;
/** Pauses between questions for a namespace that may be as new as this claim, ms: a standby may show it late. */
const pauses: readonly number[] = [0, 50, 100, 200, 400];
/** How long the next claims need no new comparison after one without a difference, ms. To ask an address may need a session there. */
const [madeDo, madeDoPartly] = [60_000, 1000];
/**
 * How many leases in doubt, and how many namespaces, are remembered. The holder of a lease in doubt may never renew it. Once a lease is in
 * doubt, claims wait for all addresses.
 */
const mostRemembered = 10_000;

/** The same registry, at several addresses. A claim compares them, and is refused if they are addresses of different registries. */
export function listedRegistry(registry: Registry, { all, names }: AddressList, clock: Clock): Registry {
  const asked = new AskedAddresses(all);
  /** Leases that one of several different registries granted, as a late answer showed. */
  const doubted = new BoundedMap<string, true>(mostRemembered);
  const slow = new Set<string>();
  /** Namespaces for which a late answer showed different registries. */
  const mixed = new Set<string>();
  /** Until when the claims in a namespace need no comparison, on the monotonic clock, ms. */
  const compared = new BoundedMap<string, number>(mostRemembered);

  async function claim(request: ClaimRequest): Promise<Grant | Refusal | Lost> {
    const { namespace, token } = request;
    const isDoubted = mixed.has(namespace);
    if (!isDoubted && monotonic(clock) < (compared.get(namespace) ?? -Infinity)) return registry.claim(request);
    const comparison = new AddressComparison(asked, namespace, clock, slow);
    const answer = await registry.claim(request);
    const isGranted = answer.outcome === "granted";
    const key = isGranted ? { namespace, workerId: answer.workerId, fence: answer.fence, token } : undefined;
    const difference = await comparison.difference(isGranted, isDoubted, (difference) => {
      mixed.add(namespace);
      const what = `${differenceText(difference, names)}: the lease that one of them granted ends at its next renewal; name only ${names}.`;
      process.emitWarning(what, { type: "SnowleaseWarning", code: "SNOWLEASE_MIXED_LIST" });
      if (key !== undefined) doubted.set(claimName(key), true);
    });
    if (difference === undefined) {
      if (isDoubted) mixed.delete(namespace);
      // The next claim may make a namespace that does not exist now.
      if (comparison.isComplete) compared.set(namespace, monotonic(clock) + madeDo);
      else if (isGranted) compared.set(namespace, monotonic(clock) + madeDoPartly);
      return answer;
    }
    if (isGranted && key !== undefined) {
      const { from, recents, receipt } = answer;
      const unused = { ...key, clock: request.clock, receipt, used: { until: from, recents } };
      // If this fails, the worker ID rests for a window.
      await registry.release(unused).catch(ignoreRefusal);
    }
    throw configInvalid(`${differenceText(difference, names)}: nothing was claimed; name only ${names}.`);
  }

  return {
    ...registry,
    claim,

    async renew(request) {
      // Chance decides which of the registries would renew it.
      const name = claimName(request);
      if (doubted.get(name) !== true) return registry.renew(request);
      doubted.delete(name);
      return { outcome: "lost", reason: "forgotten" };
    },

    async release(request) {
      doubted.delete(claimName(request));
      return registry.release(request);
    },

    async close() {
      await Promise.all([asked.close(), registry.close()]);
    },
  };
}

function claimName({ namespace, workerId, fence }: Omit<ClaimKey, "token">): string {
  return `${namespace}/${workerId}/${fence}`;
}

/** The addresses of a list. Each is opened for a question, and then closed. */
export class AskedAddresses {
  readonly #listed: readonly ListedRegistry[];
  /** The questions that have no answer yet. Claims share them. */
  readonly #asking = new Map<string, Promise<NamespaceId>>();
  readonly #opened = new Set<Registry>();
  #isClosed = false;

  constructor(listed: readonly ListedRegistry[]) {
    this.#listed = listed;
  }

  get addresses(): readonly string[] {
    return this.#listed.map(({ address }) => address);
  }

  /** Never rejects. @param place place of the address in the list. */
  ask(place: number, namespace: string): Promise<NamespaceId> {
    const name = `${place}/${namespace}`;
    const asking = this.#asking.get(name) ?? this.#ask(place, namespace).finally(() => this.#asking.delete(name));
    this.#asking.set(name, asking);
    return asking;
  }

  async #ask(place: number, namespace: string): Promise<NamespaceId> {
    let registry: Registry | undefined;
    try {
      registry = await this.#listed[place]?.open();
      if (registry === undefined || this.#isClosed) return undefined;
      this.#opened.add(registry);
      const info = await registry.describe(namespace);
      return info === undefined ? null : info.id;
    } catch {
      return undefined;
    } finally {
      if (registry !== undefined) {
        this.#opened.delete(registry);
        await registry.close().catch(() => undefined);
      }
    }
  }

  /** Ends the questions that have no answer yet. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#opened].map((registry) => registry.close().catch(() => undefined)));
  }
}

/** Compares a namespace at all addresses, during a claim. */
class AddressComparison {
  readonly #asked: AskedAddresses;
  readonly #namespace: string;
  readonly #clock: Clock;
  readonly #inquiries: readonly Inquiry[];

  /** Addresses whose last answer was late. No claim waits for them. */
  readonly #slow: Set<string>;

  /** Asks all addresses. @param slow shared by all comparisons at these addresses. */
  constructor(asked: AskedAddresses, namespace: string, clock: Clock, slow: Set<string>) {
    this.#slow = slow;
    this.#asked = asked;
    this.#namespace = namespace;
    this.#clock = clock;
    this.#inquiries = asked.addresses.map((address, place) => {
      const first = asked.ask(place, namespace);
      const inquiry: Inquiry = { address, place, first, isAnswered: false, id: undefined };
      void first.then((id) => {
        Object.assign(inquiry, { id, isAnswered: true });
        this.#slow.delete(address);
      });
      return inquiry;
    });
  }

  /** Whether each address has reported an id. */
  get isComplete(): boolean {
    return this.#inquiries.every(({ id }) => typeof id === "string");
  }

  /**
   * Call it when the claim has its answer. Returns the difference between the answers that come until a moment later. Undefined: no
   * difference.
   * @param isGranted whether the claim was granted, so that the namespace exists by now.
   * @param isDoubted whether the last late answer showed a difference. Then this call waits for all answers.
   * @param onLate called with a difference that a later answer shows.
   */
  async difference(
    isGranted: boolean,
    isDoubted: boolean,
    onLate: (difference: Difference) => void,
  ): Promise<Difference | undefined> {
    const awaited = this.#inquiries.filter(({ address }) => isDoubted || !this.#slow.has(address));
    const answers = Promise.all(awaited.map(({ first }) => first));
    await (isDoubted ? answers : Promise.race([answers, this.#clock.sleep(grace, { keepAlive: false })]));
    const late = this.#inquiries.filter(({ isAnswered }) => !isAnswered);
    const early = this.#inquiries.filter(({ isAnswered }) => isAnswered);
    for (const { address } of late) this.#slow.add(address);
    if (isGranted) await Promise.all(early.map((inquiry) => this.#askAgain(inquiry, true)));
    const difference = differenceOf(early, this.#namespace, isGranted);
    if (difference === undefined && isGranted && late.length > 0) void this.#compareLate(late, onLate);
    return difference;
  }

  async #compareLate(late: readonly Inquiry[], onLate: (difference: Difference) => void): Promise<void> {
    await Promise.all(
      late.map(async (inquiry) => {
        await inquiry.first;
        await this.#askAgain(inquiry, false);
      }),
    );
    const difference = differenceOf(this.#inquiries, this.#namespace, true);
    if (difference !== undefined) onLate(difference);
  }

  /**
   * Asks an address again if it does not have the namespace.
   * @param keepAlive whether a claim waits for the answer. Otherwise a process without other work would end.
   */
  async #askAgain(inquiry: Inquiry, keepAlive: boolean): Promise<void> {
    for (const pause of pauses) {
      if (inquiry.id !== null) return;
      if (pause > 0) await this.#clock.sleep(pause, { keepAlive });
      inquiry.id = await this.#asked.ask(inquiry.place, this.#namespace);
    }
  }
}

/** Two addresses that differ, and in what. */
export interface Difference {
  readonly addresses: readonly [string, string];
  readonly what: string;
}

/** The addresses that differ. Undefined if none differ. `exists`: whether each address has to know the namespace by now. */
export function differenceOf(
  answers: readonly { readonly address: string; readonly id: NamespaceId }[],
  namespace: string,
  exists: boolean,
): Difference | undefined {
  const known = answers.find(({ id }) => typeof id === "string");
  const other = answers.find(({ id }) => id !== undefined && id !== known?.id && (id !== null || exists));
  if (known === undefined || other === undefined) return undefined;
  const what =
    other.id === null
      ? "does not exist at the second one"
      : `has the id ${known.id} at the first one and ${other.id} at the second one`;
  return { addresses: [known.address, other.address], what: `namespace \`${namespace}\` ${what}` };
}

/** The first part of a message. `names`: what the addresses of the list are. */
export function differenceText({ addresses, what }: Difference, names: string): string {
  return `The addresses ${addresses.join(" and ")} are not ${names}: each of them grants the same worker IDs (${what})`;
}
