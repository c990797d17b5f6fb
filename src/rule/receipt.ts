import type { NamespaceInfo, NamespaceLimits } from "./limits.ts";
import type { Stored } from "./window.ts";

/*
 * A registry cannot know that it is an older copy of itself, but its holders can. Each holder has a receipt of the registry's last answer
 * to it. A registry that forgot nothing still has what the receipt proves.
 */

/** What a registry stored with a grant or a renewal. A later request sends it back. */
export interface Receipt extends NamespaceLimits {
  /** `NamespaceInfo.id`. */
  readonly namespaceId: string;
  /** `Era.era`. */
  readonly era: string;
  readonly workerId: number;
  readonly fence: number;
  /** What the registry keeps of the claim's token. */
  readonly token: string;
  /** How many renewals it accepted under this fence. */
  readonly renewals: number;
  /** The end of the window, Unix ms. */
  readonly until: number;
}

/** Begins the text of a receipt: a later version may write another one. */
const version = "1";

const pattern =
  /^1\.([\da-f]{1,64})\.(\d{1,16}-[\da-f]{1,64})\.(\d{1,16})\.(\d{1,16})\.([\w-]{1,128})\.(\d{1,16})\.(\d{1,16})\.(\d{1,16})\.(\d{1,16})$/;

/** The latest time that a `Date` has, Unix ms. */
const lastTime = 8.64e15;
/** Thirty years: no namespace has a longer limit, ms. */
const longestLimit = 1e12;

/** The receipt for a record that was just stored; undefined for a namespace without an id. */
export function receiptOf(
  { info, era }: { readonly info: Omit<NamespaceInfo, "layout">; readonly era: string },
  record: Pick<Stored, "workerId" | "fence" | "token" | "renewals" | "until">,
): string | undefined {
  const { workerId, fence, token, renewals = 0, until } = record;
  const { id, maxWindow, maxClockSkew } = info;
  if (id === undefined || token === undefined) return undefined;
  return `${version}.${id}.${era}.${workerId}.${fence}.${token}.${renewals}.${until}.${maxWindow}.${maxClockSkew}`;
}

/** Reads a receipt. Undefined for any other text, which proves nothing: the request then counts as one without a receipt. */
export function readReceipt(text: string | undefined): Receipt | undefined {
  const [, namespaceId, era, workerId, fence, token, renewals, until, maxWindow, maxClockSkew] =
    pattern.exec(text ?? "") ?? [];
  if (namespaceId === undefined || era === undefined || token === undefined) return undefined;
  const receipt: Receipt = {
    namespaceId,
    era,
    workerId: Number(workerId),
    fence: Number(fence),
    token,
    renewals: Number(renewals),
    until: Number(until),
    maxWindow: Number(maxWindow),
    maxClockSkew: Number(maxClockSkew),
  };
  return isPossible(receipt) ? receipt : undefined;
}

/** The namespace's id in a receipt that a registry wrote, without reading the rest. For any other text, the result means nothing. */
export function namespaceIdIn(receipt: string): string {
  const begin = version.length + 1;
  return receipt.slice(begin, receipt.indexOf(".", begin));
}

/** A clock that showed later times was wrong: fences and windows after them would not be exact numbers. */
function isPossible({ era, workerId, fence, renewals, until, maxWindow, maxClockSkew }: Receipt): boolean {
  if (until > lastTime || Number.parseInt(era, 10) > lastTime) return false;
  if (maxWindow > longestLimit || maxClockSkew > longestLimit) return false;
  return Number.isSafeInteger(workerId) && Number.isSafeInteger(fence) && Number.isSafeInteger(renewals);
}

/**
 * Whether the registry forgot what this receipt proves. `record`: of the receipt's worker ID. A higher fence, an ended claim and more
 * renewals are no evidence: the registry may have done all of that since.
 */
export function isForgotten(
  receipt: Receipt,
  { info, era }: { readonly info: NamespaceInfo; readonly era: string },
  record: Stored | undefined,
): boolean {
  // A namespace of an earlier version gets its id with its next write.
  if (info.id !== undefined && info.id !== receipt.namespaceId) return true;
  if (isLaterEra(receipt.era, era)) return true;
  if (record === undefined || record.fence < receipt.fence) return true;
  if (record.fence > receipt.fence) return false;
  if (record.token !== undefined && record.token !== receipt.token) return true;
  return (record.renewals ?? 0) < receipt.renewals;
}

/** Whether a store in the era `present` has forgotten the other one: eras rise. */
function isLaterEra(era: string, present: string): boolean {
  const [number, presentNumber] = [Number.parseInt(era, 10), Number.parseInt(present, 10)];
  return number > presentNumber || (number === presentNumber && era !== present);
}

/**
 * Whether a receipt that the registry forgot begins a quarantine. If not, the receipt is from an earlier era, and the forgotten window ends
 * within the quarantine with which the present era began. If an operator ended that quarantine early, the operator confirmed that the
 * window had passed.
 */
export function isUncovered(
  receipt: Receipt,
  { era, quarantineEnd }: { readonly era: string; readonly quarantineEnd: number },
): boolean {
  return receipt.era === era || isLaterEra(receipt.era, era) || receipt.until > quarantineEnd;
}
