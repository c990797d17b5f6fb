import type { Clock } from "../../lease/clock.ts";
import { configInvalid, type SnowleaseError } from "../../id/errors.ts";

/*
 * Several addresses have to be daemons of one registry: two registries would grant one worker ID twice. Each namespace has an id of its
 * own, so a claim asks all addresses for it.
 */

/** The id of a namespace at one address; null where it does not exist there; undefined where no answer tells. */
export type NamespaceId = string | null | undefined;

/** One of several addresses. */
export interface AskedAddress {
  readonly address: string;
  /** Never rejects. */
  ask(): Promise<NamespaceId>;
}

/** An address that was asked. */
interface Inquiry {
  readonly address: string;
  readonly first: Promise<NamespaceId>;
  isAnswered: boolean;
  id: NamespaceId;
}

/** How long a claim that was answered waits for the other addresses, ms. An answer that comes later is compared when it comes. */
const grace = 100;
/** Pauses between questions for a namespace that exists since this claim, ms: a standby may show it late. */
const pauses: readonly number[] = [0, 50, 100, 200, 400];

/** Compares a namespace at all addresses, beside a claim. */
export class AddressComparison {
  readonly #addresses: readonly AskedAddress[];
  readonly #namespace: string;
  readonly #clock: Clock;
  readonly #inquiries: readonly Inquiry[];

  /** Those whose last answer came late: no claim waits for them. */
  readonly #slow: Set<string>;

  /** Asks all of them. @param slow of all comparisons at these addresses. */
  constructor(addresses: readonly AskedAddress[], namespace: string, clock: Clock, slow: Set<string>) {
    this.#slow = slow;
    this.#addresses = addresses;
    this.#namespace = namespace;
    this.#clock = clock;
    this.#inquiries = addresses.map(({ address, ask }) => {
      const first = ask();
      const inquiry: Inquiry = { address, first, isAnswered: false, id: undefined };
      void first.then((id) => {
        Object.assign(inquiry, { id, isAnswered: true });
        this.#slow.delete(address);
      });
      return inquiry;
    });
  }

  /**
   * Call it once the claim is answered. What the answers show by then, or a moment later; undefined: no difference.
   * @param isGranted whether the namespace exists since the claim at the latest.
   * @param isDoubted whether the last late answer showed a difference: then it waits for all answers.
   * @param onLate called with a difference that a later answer shows.
   */
  async difference(
    isGranted: boolean,
    isDoubted: boolean,
    onLate: (difference: string) => void,
  ): Promise<SnowleaseError | undefined> {
    const awaited = this.#inquiries.filter(({ address }) => isDoubted || !this.#slow.has(address));
    const answers = Promise.all(awaited.map(({ first }) => first));
    await (isDoubted ? answers : Promise.race([answers, this.#clock.sleep(grace, { keepAlive: false })]));
    const late = this.#inquiries.filter(({ isAnswered }) => !isAnswered);
    const early = this.#inquiries.filter(({ isAnswered }) => isAnswered);
    for (const { address } of late) this.#slow.add(address);
    if (isGranted) await Promise.all(early.map((inquiry) => this.#askAgain(inquiry, true)));
    const error = refusalOf(differenceOf(early, this.#namespace, isGranted));
    if (error === undefined && isGranted && late.length > 0) void this.#compareLate(late, onLate);
    return error;
  }

  async #compareLate(late: readonly Inquiry[], onLate: (difference: string) => void): Promise<void> {
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
   * Asks an address again that does not have the namespace.
   * @param keepAlive whether a claim waits for the answer: a process that does nothing else would end.
   */
  async #askAgain(inquiry: Inquiry, keepAlive: boolean): Promise<void> {
    const asked = this.#addresses.find(({ address }) => address === inquiry.address);
    for (const pause of pauses) {
      if (inquiry.id !== null) return;
      if (pause > 0) await this.#clock.sleep(pause, { keepAlive });
      inquiry.id = await asked?.ask();
    }
  }
}

/**
 * Which addresses differ, as the beginning of a message; undefined where none do. `exists`: whether each daemon has to know the namespace by
 * now.
 */
export function differenceOf(
  answers: readonly { readonly address: string; readonly id: NamespaceId }[],
  namespace: string,
  exists: boolean,
): string | undefined {
  const known = answers.find(({ id }) => typeof id === "string");
  const other = answers.find(({ id }) => id !== undefined && id !== known?.id && (id !== null || exists));
  if (known === undefined || other === undefined) return undefined;
  const what =
    other.id === null
      ? "does not exist at the second one"
      : `has the id ${known.id} at the first one and ${other.id} at the second one`;
  return `The addresses ${known.address} and ${other.address} are daemons of different registries, which grant the same worker IDs twice (namespace \`${namespace}\` ${what})`;
}

function refusalOf(difference: string | undefined): SnowleaseError | undefined {
  return difference === undefined
    ? undefined
    : configInvalid(`${difference}: nothing was claimed; name only daemons of one registry.`);
}
