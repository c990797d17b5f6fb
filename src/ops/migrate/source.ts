import type { ServerAddress } from "../../registries/url.ts";
import type { RegistryAddress } from "../../registries/index.ts";
import { SnowleaseError } from "../../id/errors.ts";

/** Where the worker IDs of a fleet come from today, and what each kind of source holds, in the singular. */
const contents = {
  ip: "host",
  "westid-redis": "key workerId:use:N or workerId:pid:IP of a westid program",
  "westid-sql": "row of a westid program in table workerid_assign",
  "uid-generator": "row in table WORKER_NODE",
  leaf: "node in /snowflake/NAME/forever",
  "cosid-redis": "key cosid:{NAMESPACE}:itc_idx, :adder or :revert with a machine ID",
  "cosid-sql": "machine ID in table cosid_machine",
} as const;
export type SourceKind = keyof typeof contents;
export const sourceKinds = Object.keys(contents) as [SourceKind, ...SourceKind[]];

/** For a source that holds nothing: most likely another one is meant, and a plan of it would protect no host. */
export function nothingThere(from: SourceKind, source: string): SnowleaseError {
  return new SnowleaseError(
    "NOT_FOUND",
    `There is no ${contents[from]} at ${source}; name the server of the old programs, with its database and parameters.`,
  );
}

/** A program that makes IDs without a lease, as its source shows it. */
export interface Maker {
  readonly workerId: number;
  /** For people. */
  readonly name: string;
  /** Its address, where that is known: IPv4, or IPv6 in its shortest form. */
  readonly address?: string | undefined;
  /** The latest time at which it may have used the number, where the source shows that, Unix ms. */
  readonly usedUntil?: number | undefined;
}

/** Worker IDs that no program may have. */
export interface RetiredRange {
  readonly first: number;
  readonly last: number;
  readonly why: string;
  /** Also after the move: its IDs may bear future times. */
  readonly forGood?: boolean | undefined;
}

/** The worker IDs that a source may still hand out, besides those of its makers. */
export interface Reach {
  /**
   * any: each worker ID up to `highest`, also one that it gave out before. above: each higher one, upwards, each once. none: the worker
   * ID belongs to the host.
   */
  readonly next: "any" | "above" | "none";
  /** any: the highest that it can hand out. Otherwise the highest that it ever gave out; -1 where it gave out none. */
  readonly highest: number;
}

export interface SourceContents {
  readonly makers: readonly Maker[];
  readonly retired: readonly RetiredRange[];
  readonly reach: Reach;
  /** Whether a host may go on with the number that it has; if not, why. */
  readonly takesOver: true | string;
  /** Entries that are not understood, one line each. */
  readonly remarks: readonly string[];
}

/** How to reach and read a source. Nothing is ever written there. */
export interface SourceRequest {
  readonly address: Extract<RegistryAddress, ServerAddress>;
  /** How many worker IDs the source can hand out: 0 to the one below. */
  readonly numbers: number;
  /** Of one operation, ms. */
  readonly operationTimeout: number;
}

/** A number as programs of other languages write it; undefined for any other text. */
export function wholeNumber(text: string): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : undefined;
}

/** A text of a source, for a remark. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}
