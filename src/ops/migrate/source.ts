import type { ServerAddress } from "../../registries/url.ts";
import type { RegistryAddress } from "../../registries/index.ts";
import { SnowleaseError } from "../../id/errors.ts";

/** The kinds of present sources of a fleet's worker IDs, each with the name of one entry. */
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

/** The error for an empty source. The user most likely means another source, and a plan of this one would protect no host. */
export function nothingThere(from: SourceKind, source: string): SnowleaseError {
  return new SnowleaseError(
    "NOT_FOUND",
    `There is no ${contents[from]} at ${source}; name the server of the old programs, with its database and parameters.`,
  );
}

/** A program that makes IDs without a lease, as its source shows it. */
export interface Maker {
  readonly workerId: number;
  /** Its name for people. */
  readonly name: string;
  /** Its address, if it is known: IPv4, or IPv6 in its shortest form. */
  readonly address?: string | undefined;
  /** The latest time at which it may have used the worker ID, if the source shows that, Unix ms. */
  readonly usedUntil?: number | undefined;
}

/** Worker IDs that no program may get. */
export interface RetiredRange {
  readonly first: number;
  readonly last: number;
  readonly why: string;
  /** Whether they stay retired after the move, because their IDs may have future times. */
  readonly forGood?: boolean | undefined;
}

/** The worker IDs that a source may still hand out, in addition to the ones of its makers. */
export interface Reach {
  /**
   * any: each worker ID up to `highest`, even one that it handed out before. above: each worker ID above `highest`, in ascending order,
   * once. none: the worker ID belongs to the host.
   */
  readonly next: "any" | "above" | "none";
  /** any: the highest worker ID that it can hand out. Otherwise the highest that it has ever handed out, or -1 if there is none. */
  readonly highest: number;
}

export interface SourceContents {
  readonly makers: readonly Maker[];
  readonly retired: readonly RetiredRange[];
  readonly reach: Reach;
  /** Whether a host may keep its worker ID. If not, the reason. */
  readonly takesOver: true | string;
  /** Entries that the reader does not understand, one line each. */
  readonly remarks: readonly string[];
}

/** How to reach and read a source. Nothing is ever written there. */
export interface SourceRequest {
  readonly address: Extract<RegistryAddress, ServerAddress>;
  /** How many worker IDs the source can hand out, from 0 on. */
  readonly numbers: number;
  /** Timeout of one operation, ms. */
  readonly operationTimeout: number;
}

/** A number in decimal digits. Undefined for any other text. */
export function wholeNumber(text: string): number | undefined {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : undefined;
}

/** A text of a source, for a remark. */
export function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}
