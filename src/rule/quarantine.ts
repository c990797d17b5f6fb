import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import type { NamespaceState } from "./era.ts";
import type { NamespaceInfo } from "./limits.ts";
import { readReceipt, type Receipt } from "./receipt.ts";
import type { EndQuarantineRequest, Lost, ReleaseRequest, RenewRequest, SeparateRequest } from "./registry.ts";
import { type InQuarantine, isInQuarantine } from "./verdict.ts";

/** A namespace for people, with its quarantine while that lasts. */
export function infoOf({ info, clock, era, quarantineEnd, opensAt }: NamespaceState): NamespaceInfo {
  return {
    ...info,
    era,
    ...(clock < opensAt && { quarantineUntil: opensAt }),
    ...(quarantineEnd > 0 && { quarantineEnd }),
  };
}

/** No quarantine lasts longer by right clocks, ms. */
const longestUsual = 3_600_000;

/** The refusal of a request in a quarantine. `title`: of the store. */
export function quarantineError(
  title: string,
  { clock, opensAt, unknown }: Omit<InQuarantine, "outcome">,
): SnowleaseError {
  const retryAfterMs = opensAt - clock;
  let cause = `${title} may have forgotten windows that it granted (it was restored, promoted, moved, formed anew or emptied): nothing is granted for ${retryAfterMs} ms, until they have passed; wait.`;
  if (retryAfterMs > longestUsual) {
    cause = `The clock of ${title} was ahead when a quarantine began, or is behind now: nothing is granted until ${timeText(opensAt)}; set the clock right, or look at it with \`snowlease quarantine\`.`;
  } else if (unknown !== undefined) {
    cause = `${title} has no namespace \`${unknown}\`, and a holder proves that it had one: nothing is granted in it for ${retryAfterMs} ms, until the windows have passed that it may have forgotten; put its data back, or wait.`;
  }
  return new SnowleaseError("QUARANTINE", cause, { retryAfterMs, until: opensAt });
}

/** The answer of a verdict, or the error to throw in its place: not before the era that the verdict begins is stored. */
export function answerOrError<Answer extends { readonly outcome: string }>(
  title: string,
  answer: Answer | InQuarantine,
): Exclude<Answer, InQuarantine> | SnowleaseError {
  return isInQuarantine(answer) ? quarantineError(title, answer) : (answer as Exclude<Answer, InQuarantine>);
}

/** @throws SnowleaseError QUARANTINE before its end. */
export function checkQuarantine(state: NamespaceState, title: string): void {
  if (state.clock < state.opensAt) throw quarantineError(title, state);
}

/**
 * The answer, or the error to throw, to a holder that renews in a namespace that does not exist. Once every window has passed that may
 * have been granted in it, the holder may claim anew.
 */
export function unknownNamespace(
  title: string,
  { namespace, receipt: text, clock }: RenewRequest,
): Lost | SnowleaseError {
  const receipt = readReceipt(text);
  if (receipt === undefined) return { outcome: "lost" };
  if (clock >= passedAt(receipt)) return { outcome: "lost", reason: "forgotten" };
  return forgottenNamespace(title, namespace, receipt, clock);
}

/** The answer to a holder that gives back a worker ID of a namespace that does not exist. */
export function lostNamespace({ receipt }: ReleaseRequest): Lost {
  return readReceipt(receipt) === undefined ? { outcome: "lost" } : { outcome: "lost", reason: "forgotten" };
}

/** The refusal of a request in a namespace that a receipt proves and that does not exist. `clock`: of the request, Unix ms. */
export function forgottenNamespace(title: string, namespace: string, receipt: Receipt, clock: number): SnowleaseError {
  const until = passedAt(receipt);
  return new SnowleaseError(
    "QUARANTINE",
    `${title} has no namespace \`${namespace}\`, and a holder proves that it had one: it may have forgotten windows that last until ${timeText(until)}; put its data back, or let no process claim in it before then.`,
    { retryAfterMs: Math.max(1, until - clock), until },
  );
}

/** When every window has passed that the registry of this receipt may have granted until then, Unix ms. */
function passedAt({ until, maxWindow, maxClockSkew }: Receipt): number {
  return until + maxWindow + 2 * maxClockSkew;
}

/** Refuses an operator's request about an era other than the present one. @throws SnowleaseError CONFIG_INVALID */
export function checkEra({ namespace, era }: EndQuarantineRequest | SeparateRequest, present: string): void {
  if (era === present) return;
  throw configInvalid(
    `Namespace \`${namespace}\` is in the era \`${present}\`, and the request names \`${era}\`: nothing was changed; look at the present one with \`snowlease quarantine\` first.`,
  );
}
