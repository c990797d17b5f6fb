import type { RegistryAddress, ServerAddress } from "../../core/address.ts";
import type { Layout } from "../../core/layout.ts";

/** Where the worker IDs of a fleet come from today. */
export const sourceKinds = [
  "ip",
  "westid-redis",
  "westid-sql",
  "uid-generator",
  "leaf",
  "cosid-redis",
  "cosid-sql",
] as const;
export type SourceKind = (typeof sourceKinds)[number];

/** Somebody who makes IDs without a lease, as far as a source tells. */
export interface Maker {
  readonly workerId: number;
  /** For people. */
  readonly name: string;
  /** Its address, where that is known: IPv4, or IPv6 in its shortest form. */
  readonly address?: string | undefined;
  /** Up to when it may have used the number, as far as the source tells, Unix ms. */
  readonly usedUntil?: number | undefined;
}

/** Worker IDs that nobody may have. */
export interface RetiredRange {
  readonly first: number;
  readonly last: number;
  readonly why: string;
  /** Also after the move: what was made with them may bear times to come. */
  readonly forGood?: boolean | undefined;
}

/** What a source holds. */
export interface Findings {
  readonly makers: readonly Maker[];
  readonly retired: readonly RetiredRange[];
  /** Whether a host may go on with the number that it has; if not, why. */
  readonly takesOver: true | string;
  /** What stood there that is not understood, a line each. */
  readonly remarks: readonly string[];
}

/** How to reach a source, and what to read it with. Nothing is ever written there. */
export interface SourceRequest {
  readonly address: Extract<RegistryAddress, ServerAddress>;
  readonly layout: Layout;
  /** Of one operation, ms. */
  readonly operationTimeout: number;
}

/** A number as programs of other languages write it; undefined for any other text. */
export function wholeNumber(text: string): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : undefined;
}

/** What stood in a source, for a remark. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}
