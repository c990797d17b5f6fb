import { configInvalid, shown, SnowleaseError, timeText } from "../id/errors.ts";
import type { Pin, PinOwner } from "./registry.ts";
import type { NamespaceLimits } from "./limits.ts";
import type { Stored } from "./window.ts";

// A pin takes a worker ID out of the pool, or reserves it for one address, whose host may have used it without a lease until now.

/** The record of a worker ID that was never claimed. */
export function unusedRecord(workerId: number): Stored {
  return { workerId, fence: 0, from: 0, until: 0, seenClock: 0, clean: false, knownFrom: 0 };
}

const longestReason = 200;

/**
 * Refuses a worker ID above `highest`, the layout's highest one, an empty or unprintable reason, an owner that is not an IP address, and a
 * `usedUntil` that is later than the end of any window. `clock`: the registry's, Unix ms. @throws SnowleaseError CONFIG_INVALID
 */
export function checkPin(
  { workerId, reason, owner }: Pin,
  highest: number,
  clock: number,
  info: NamespaceLimits,
): void {
  if (!Number.isInteger(workerId) || workerId < 0 || workerId > highest) {
    throw configInvalid(
      `Expected \`workerId\` to be an integer from 0 to ${highest}, got ${shown(workerId)}; correct it.`,
    );
  }
  if (reason.length > longestReason || !/\S/.test(reason) || /[\p{Cc}\p{Cs}]/u.test(reason)) {
    throw configInvalid(
      `Expected \`reason\` to be 1 to ${longestReason} characters, none of them a control character, got ${shown(reason)}; say why worker ${workerId} is pinned.`,
    );
  }
  if (owner === undefined) return;
  const { ip, usedUntil = 0 } = owner;
  if (!/^[\da-fA-F:.]{2,45}$/.test(ip)) {
    throw configInvalid(`Expected the owner of worker ${workerId} to be an IPv4 or IPv6 address, got ${shown(ip)}.`);
  }
  const latest = clock + info.maxWindow + info.maxClockSkew;
  if (Number.isSafeInteger(usedUntil) && usedUntil >= 0 && usedUntil <= latest) return;
  throw configInvalid(
    `Expected \`usedUntil\` of worker ${workerId} to be from 0 to ${latest} (the registry's clock + maxWindow + maxClockSkew, Unix ms), got ${shown(usedUntil)}; check the clock of ${ip}.`,
  );
}

/**
 * The record after a pin.
 * @throws SnowleaseError WORKER_ID_HELD if the owner's usage ends after the begin of a present holder's window.
 */
export function pinnedRecord(before: Stored, reason: string, owner: PinOwner | undefined): Stored {
  const { token, holder, from, until } = before;
  const record = { ...before, pinned: reason, owner: owner?.ip };
  const { usedUntil = 0 } = owner ?? {};
  if (token !== undefined && usedUntil > from) {
    throw new SnowleaseError(
      "WORKER_ID_HELD",
      `Worker ${before.workerId} is held by ${holder?.host} (${holder?.ip}), pid ${holder?.pid}, and was used by ${owner?.ip} until ${timeText(usedUntil)}; stop that process, or pin it without an owner.`,
    );
  }
  if (usedUntil <= until) return record;
  return { ...record, until: usedUntil, clean: false, recents: undefined };
}

/** The record after `unpin`. No holder continues after an owner, which may have used the worker ID without a lease. */
export function unpinnedRecord(before: Stored): Stored {
  const record = { ...before, pinned: undefined, owner: undefined };
  if (before.owner === undefined || before.token !== undefined) return record;
  return { ...record, clean: false, recents: undefined };
}
