import { base62Digits, base62SortDigits, base64SortDigits, base64urlDigits } from "../id/digits.ts";
import type { EncodingName } from "../id/encodings.ts";

/** A form of which neighbours are written together, and how its texts end. */
interface TextEndings {
  readonly alphabet: string;
  /** The ends of the texts of n, n+1, ... for any multiple n of their count. */
  readonly tails: readonly string[];
  /** How many values of the last digit make one tail's. */
  readonly step: number;
}

/**
 * Only where a text has at most 12 characters: the sum of two strings is then copied, while a longer one would be a rope, which leaves
 * the copying to its reader. Tails of two digits would be 4000 strings, which cost more to fetch than they save.
 */
const textEndings: { readonly [Name in EncodingName]?: TextEndings } = {
  base62: digitEndings(base62Digits),
  // The digit before `=` counts four bits of the ID, and ends in two zero bits.
  base64url: {
    alphabet: base64urlDigits,
    tails: Array.from({ length: 16 }, (_, value) => `${base64urlDigits.charAt(4 * value)}=`),
    step: 4,
  },
  base62sort: digitEndings(base62SortDigits),
  base64sort: digitEndings(base64SortDigits),
};

function digitEndings(alphabet: string): TextEndings {
  return { alphabet, tails: alphabet.split(""), step: 1 };
}

/** Writes IDs that follow each other, of which most of a text is its neighbour's: half the time that base62 takes on its own. */
export class IncrementalEncoder {
  #name: EncodingName | undefined;
  #alphabet = "";
  #tails: readonly string[] = [];
  /** All but the tail: the stem and one digit more. */
  #head = "";
  #stem = "";
  #digit = 0;
  /** The place, in the row of IDs, of the one that ends in the first of the tails. */
  #first = 0;

  /** The text of the ID at `place`, where what was learned tells it. */
  at(place: number, name: EncodingName): string | undefined {
    if (name !== this.#name) return undefined;
    const tail = this.#tails[place - this.#first] ?? this.#carry(place);
    return tail && this.#head + tail;
  }

  /** Learns from the text of the ID at `place`; the one at `place + 1` is to be greater by 1. */
  learn(place: number, name: EncodingName, text: string): void {
    const known = textEndings[name];
    if (known === undefined) return;
    const { alphabet, tails, step } = known;
    const cut = text.length - (tails[0]?.length ?? 0);
    if (cut === 0) return;
    this.#name = name;
    this.#alphabet = alphabet;
    this.#tails = tails;
    this.#head = text.slice(0, cut);
    this.#stem = text.slice(0, cut - 1);
    this.#digit = alphabet.indexOf(text.charAt(cut - 1));
    this.#first = place - alphabet.indexOf(text.charAt(cut)) / step;
  }

  /** Another row begins. */
  forget(): void {
    this.#name = undefined;
  }

  /** Goes on to the next digit before the tail where there is one, for the ID behind the one with the last tail: its tail is the first. */
  #carry(place: number): string | undefined {
    if (place !== this.#first + this.#tails.length || this.#digit + 1 >= this.#alphabet.length) return undefined;
    this.#first = place;
    this.#head = this.#stem + this.#alphabet.charAt(++this.#digit);
    return this.#tails[0];
  }
}
