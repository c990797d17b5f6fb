import { base62Digits, base62SortDigits, base64SortDigits, base64urlDigits } from "../id/digits.ts";
import type { EncodingName } from "../id/encodings.ts";

/** The ends of the texts of consecutive IDs in one form. */
interface TextEndings {
  readonly alphabet: string;
  /** The ends of the texts of n, n+1, ... for any n that is a multiple of their count. */
  readonly tails: readonly string[];
  /** How many values of the last digit one tail counts. */
  readonly step: number;
}

/**
 * Only forms with texts of at most 12 characters: V8 makes ropes of longer sums of strings. Tails of two digits would be 4000 strings, and
 * fetching them costs more than they save.
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

/** Writes consecutive IDs, whose texts differ mostly in the last digit: half the time of base62 on its own. */
export class IncrementalEncoder {
  #name: EncodingName | undefined;
  #alphabet = "";
  #tails: readonly string[] = [];
  /** The text without its tail: the stem and one more digit. */
  #head = "";
  #stem = "";
  #digit = 0;
  /** Position of the ID that ends in the first tail. */
  #first = 0;

  /** The text of the ID at `place`, if `learn` knows enough for it. */
  at(place: number, name: EncodingName): string | undefined {
    if (name !== this.#name) return undefined;
    const tail = this.#tails[place - this.#first] ?? this.#carry(place);
    return tail && this.#head + tail;
  }

  /** Learns from the text of the ID at `place`. The ID at `place + 1` must be greater by 1. */
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

  /** Forgets all texts, before IDs that do not follow the last one. */
  forget(): void {
    this.#name = undefined;
  }

  /** Goes on to the next digit before the tail, if there is one, for the ID after the last tail. */
  #carry(place: number): string | undefined {
    if (place !== this.#first + this.#tails.length || this.#digit + 1 >= this.#alphabet.length) return undefined;
    this.#first = place;
    this.#head = this.#stem + this.#alphabet.charAt(++this.#digit);
    return this.#tails[0];
  }
}
