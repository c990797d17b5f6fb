import { lengthText } from "../id/duration.ts";
import { configInvalid, SnowleaseError, timeText } from "../id/errors.ts";
import { shellWord } from "../id/shell-word.ts";
import { earliestOpening, type Era, isOfRemoved, isSealed, type NamespaceState } from "./era.ts";
import type { EraInfo, NamespaceInfo } from "./limits.ts";
import { readReceipt, type Receipt } from "./receipt.ts";
import type {
  EndQuarantineRequest,
  Lost,
  ReleaseRequest,
  RemoveRequest,
  RenewRequest,
  SeparateRequest,
} from "./registry.ts";
import { type InQuarantine, isInQuarantine } from "./verdict.ts";

/** A namespace for people, with its quarantine while that lasts. */
export function infoOf(state: NamespaceState): NamespaceInfo {
  return { ...state.info, ...eraInfoOf(state) };
}

/** An era for people, with its quarantine while that lasts. `clock`: the registry's, Unix ms. */
export function eraInfoOf({ clock, era, quarantineEnd, opensAt }: Era & { readonly clock: number }): EraInfo {
  return {
    era,
    ...(clock < opensAt && { quarantineUntil: opensAt }),
    ...(quarantineEnd > 0 && { quarantineEnd }),
  };
}

/** When to ask again for a namespace that is being removed, ms. */
const removalTime = 1000;
/** With right clocks, no quarantine lasts longer, ms. */
const longestUsual = 3_600_000;

/** The refusal of a request in a quarantine. `title`: of the store. */
export function quarantineError(title: string, refusal: Omit<InQuarantine, "outcome">): SnowleaseError {
  const { namespace, era, clock, opensAt, isUnknown = false } = refusal;
  if (isSealed(refusal)) return sealedError(title, refusal);
  const retryAfterMs = opensAt - clock;
  const left = lengthText(retryAfterMs);
  let message = `${title} may have forgotten windows that it granted in namespace \`${namespace}\` (it was restored, promoted, moved, formed anew or emptied): nothing is granted or renewed for ${left}, until they have passed. ${waysOut(refusal)}`;
  if (retryAfterMs > longestUsual && !isOfRemoved(refusal)) {
    message = `The clock of ${title} was ahead when a quarantine of namespace \`${namespace}\` began, or is behind now: nothing is granted or renewed until ${timeText(opensAt)}, in ${left}. Set the clock right if it is behind. ${waysOut(refusal)}`;
  } else if (isOfRemoved(refusal)) {
    message = `Namespace \`${namespace}\` was removed from ${title}: nothing is granted in one of this name for ${left}, until the windows have passed that the removed one granted; wait until ${timeText(opensAt)}, or use another namespace.`;
  } else if (isUnknown) {
    message = `${title} has no namespace \`${namespace}\`, and a holder proves that it had one: nothing is granted in it for ${left}, until the windows have passed that it may have forgotten; put its data back, or wait until ${timeText(opensAt)}.`;
  }
  return new SnowleaseError("QUARANTINE", message, { namespace, era, retryAfterMs, until: opensAt });
}

/** Refuses to add to a namespace that is being removed: the removal has read its last use already. @throws SnowleaseError QUARANTINE */
export function checkUnsealed(state: NamespaceState, namespace: string, title: string): void {
  if (isSealed(state)) throw sealedError(title, { namespace, ...state, maxClockSkew: state.info.maxClockSkew });
}

/** The refusal of a request in a namespace that is being removed. `title`: of the store. */
export function sealedError(title: string, { namespace, era, opensAt }: Omit<InQuarantine, "outcome">): SnowleaseError {
  return new SnowleaseError(
    "QUARANTINE",
    `Namespace \`${namespace}\` is being removed from ${title}: nothing is granted or renewed in it; use another namespace; or, if its removal was interrupted, run \`${removeCommand(namespace, era)}\`.`,
    { namespace, era, retryAfterMs: removalTime, until: opensAt },
  );
}

/** A wait for the end of a quarantine. `maxClockSkew`: of the namespace, or the assumed one. */
type Wait = Pick<InQuarantine, "clock" | "opensAt" | "maxClockSkew"> & Partial<Pick<InQuarantine, "era">>;

/** What ends a quarantine, as the end of a message. `isNew`: the namespace may be one that never existed. */
export function waysOut(refusal: Wait & Pick<InQuarantine, "namespace" | "era">, isNew: boolean = false): string {
  const { namespace, era, opensAt } = refusal;
  const wait = `Wait until ${timeText(opensAt)}`;
  if (!canBeShortened(refusal)) return `${wait}.`;
  const never = isNew ? ", or if none ever did" : "";
  return `${wait}; or, if each process that got a worker ID of this namespace here before has stopped${never}, run \`${endCommand(namespace, era)}\`.`;
}

/** Whether an operator can make a wait shorter, see `openedEra`. This works once. */
export function canBeShortened({ clock, era = "", opensAt, maxClockSkew }: Wait): boolean {
  return !isSealed({ opensAt }) && opensAt > earliestOpening(era, clock, { maxClockSkew });
}

/** Refuses to end a quarantine that operators cannot end. @throws SnowleaseError CONFIG_INVALID */
export function checkEndable(namespace: string, era: Pick<Era, "era" | "opensAt">): void {
  if (!isSealed(era) && !isOfRemoved(era)) return;
  const why = isSealed(era)
    ? "is being removed: if that was interrupted, remove it again"
    : `was removed, and the registry has forgotten the windows that it granted: wait until ${timeText(era.opensAt)}, or use another namespace`;
  throw configInvalid(`The quarantine of namespace \`${namespace}\` cannot be ended, since it ${why}.`);
}

/** The command that ends a quarantine early. `registry`: the words that name the registry; empty if the command finds it without them. */
export function endCommand(namespace: string, era: string, registry?: string): string {
  return operatorsCommand("quarantine end", namespace, era, registry);
}

/** The command that removes a namespace. `registry`: as above. */
export function removeCommand(namespace: string, era: string, registry?: string): string {
  return operatorsCommand("remove", namespace, era, registry);
}

function operatorsCommand(name: string, namespace: string, era: string, registry: string = "--registry URL"): string {
  const words = [registry, `--namespace ${namespace}`, `--era ${shellWord(era)}`, "--i-know"];
  return [`snowlease ${name}`, ...words.filter((word) => word !== "")].join(" ");
}

/** The answer of a verdict, or the error to throw instead. The caller throws it only after it stored the era that the verdict begins. */
export function answerOrError<Answer extends { readonly outcome: string }>(
  title: string,
  answer: Answer | InQuarantine,
): Exclude<Answer, InQuarantine> | SnowleaseError {
  return isInQuarantine(answer) ? quarantineError(title, answer) : (answer as Exclude<Answer, InQuarantine>);
}

/** @throws SnowleaseError QUARANTINE before its end. */
export function checkQuarantine(state: NamespaceState, namespace: string, title: string): void {
  if (state.clock >= state.opensAt) return;
  throw quarantineError(title, { namespace, ...state, maxClockSkew: state.info.maxClockSkew });
}

/**
 * The answer, or the error to throw, to a holder that renews in a namespace that does not exist. After every window that may have been
 * granted in it has passed, the holder may claim again.
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

/** The refusal of a request in a namespace that does not exist, although a receipt proves that it did. `clock`: of the request, Unix ms. */
export function forgottenNamespace(title: string, namespace: string, receipt: Receipt, clock: number): SnowleaseError {
  const until = passedAt(receipt);
  return new SnowleaseError(
    "QUARANTINE",
    `${title} has no namespace \`${namespace}\`, and a holder proves that it had one: it may have forgotten windows that last until ${timeText(until)}; put its data back, or let no process claim in it before then.`,
    { namespace, retryAfterMs: Math.max(1, until - clock), until },
  );
}

/** When every window has passed that the registry of this receipt may have granted until then, Unix ms. */
function passedAt({ until, maxWindow, maxClockSkew }: Receipt): number {
  return until + maxWindow + 2 * maxClockSkew;
}

/** Refuses an operator's request about an era other than the present one. @throws SnowleaseError CONFIG_INVALID */
export function checkEra(
  { namespace, era }: EndQuarantineRequest | SeparateRequest | RemoveRequest,
  present: string,
): void {
  if (era === present) return;
  throw configInvalid(
    `Namespace \`${namespace}\` is in the era \`${present}\`, and the request names \`${era}\`: nothing was changed; look at the present one with \`snowlease quarantine\` first.`,
  );
}
