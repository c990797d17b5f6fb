import { lengthText } from "../id/duration.ts";
import { configInvalid, isSnowleaseError, SnowleaseError, timeText } from "../id/errors.ts";
import { isOfRemoved, isSealed } from "../rule/era.ts";
import { assumedLimits, type EraInfo, type NamespaceInfo } from "../rule/limits.ts";
import { canBeShortened, endCommand, removeCommand } from "../rule/quarantine.ts";
import type { EndQuarantineRequest, Registry } from "../rule/registry.ts";

/** The facts about a namespace and its quarantine that operators get. */
type Quarantined = Pick<NamespaceInfo, "id" | "era" | "quarantineEnd" | "quarantineUntil" | "maxClockSkew">;

/** A namespace's era and quarantine, and the clocks to compare them with. Times in Unix ms. */
export interface QuarantineReport extends Quarantined {
  readonly namespace: string;
  /** The registry's clock. */
  readonly clock: number;
  /** This host's clock at the same moment. */
  readonly hostClock: number;
}

/** @throws SnowleaseError NOT_FOUND for an unknown namespace. `now`: this host's clock, Unix ms. */
export async function quarantineReport(
  registry: Registry,
  namespace: string,
  now: () => number,
): Promise<QuarantineReport> {
  const { id, era, quarantineEnd, quarantineUntil, maxClockSkew } = await describedOrNoted(registry, namespace);
  const sent = now();
  const { clock } = await registry.ping();
  const hostClock = Math.round((sent + now()) / 2);
  return { namespace, id, era, quarantineEnd, quarantineUntil, maxClockSkew, clock, hostClock };
}

/** A Redis may have only a note of a quarantine. Then it refuses to describe the namespace until the quarantine has passed. */
async function describedOrNoted(registry: Registry, namespace: string): Promise<Quarantined> {
  try {
    return await knownNamespace(registry, namespace);
  } catch (error) {
    const { until, quarantineEnd = until, era, ...noted } = isSnowleaseError(error, "QUARANTINE") ? error.details : {};
    if (typeof until !== "number" || typeof quarantineEnd !== "number") throw error;
    const maxClockSkew = Number(noted["maxClockSkew"] ?? assumedLimits.maxClockSkew);
    return { quarantineEnd, quarantineUntil: until, maxClockSkew, ...(typeof era === "string" && { era }) };
  }
}

/**
 * Ends a quarantine. With it, an operator confirms that every window that the store forgot has passed.
 * @throws SnowleaseError NOT_FOUND for an unknown namespace; CONFIG_INVALID for another era than the present one, and for a registry that
 * cannot end a quarantine.
 */
export async function endQuarantine(registry: Registry, request: EndQuarantineRequest): Promise<EraInfo> {
  if (registry.endQuarantine !== undefined) {
    await describedOrNoted(registry, request.namespace);
    return registry.endQuarantine(request);
  }
  throw configInvalid(
    `Expected a registry that can end a quarantine, got the kind \`${registry.kind}\`, which has none; name the registry itself with \`--registry\`, or wait until the quarantine has passed.`,
  );
}

/** Does not advise to create a missing namespace, because the store may have forgotten it. */
async function knownNamespace(registry: Registry, namespace: string): Promise<NamespaceInfo> {
  const info = await registry.describe(namespace);
  if (info !== undefined) return info;
  throw new SnowleaseError(
    "NOT_FOUND",
    `This registry knows no namespace \`${namespace}\`, so there is no quarantine to show or to end; check \`--namespace\` and \`--registry\`.`,
  );
}

/** The facts of a quarantine for the texts below. */
type QuarantineView = EraInfo & Pick<NamespaceInfo, "maxClockSkew">;

/** The quarantine of a namespace as a text for operators. `clock`: the registry's, Unix ms. */
export function quarantineText(look: QuarantineView, clock: number): string {
  const { era = "", quarantineEnd, quarantineUntil = 0, maxClockSkew } = look;
  if (quarantineEnd === undefined && quarantineUntil <= clock) return "There was no quarantine.";
  const end = quarantineEnd ?? quarantineUntil;
  if (isSealed({ opensAt: quarantineUntil })) {
    return "It is being removed, and grants and renews nothing. If its removal was interrupted, remove it again.";
  }
  const wasEnded = `An operator ended the quarantine that was to last until ${timeText(end)}`;
  if (quarantineUntil > clock) {
    const left = lengthText(quarantineUntil - clock);
    if (isOfRemoved({ era, opensAt: quarantineUntil }))
      return `In quarantine for another ${left}, until ${timeText(quarantineUntil)}: a namespace of this name was removed, and the windows that it granted have not all passed. Then it goes on by itself.`;
    if (quarantineUntil < end && !canBeShortened({ clock, opensAt: quarantineUntil, maxClockSkew }))
      return `${wasEnded}: the store grants again in ${left}, at ${timeText(quarantineUntil)}.`;
    return (
      `In quarantine for another ${left}, until ${timeText(quarantineUntil)}: the store may have forgotten windows that it granted ` +
      "(it was restored, promoted, moved, formed anew or emptied), and grants and renews nothing until they have passed. " +
      "Then it goes on by itself."
    );
  }
  return end > clock ? `${wasEnded}.` : `No quarantine lasts; the last one was set to end at ${timeText(end)}.`;
}

/**
 * Advice for an operator in a quarantine, with a command. Undefined if there is none. `registry`: its name in the command. Default: the
 * word URL.
 */
export function quarantineAdvice(
  { quarantineUntil = 0, era, maxClockSkew }: QuarantineView,
  {
    namespace,
    registry,
    clock,
  }: { readonly namespace: string; readonly registry?: string | undefined; readonly clock: number },
): string | undefined {
  if (quarantineUntil <= clock || era === undefined) return undefined;
  if (isSealed({ opensAt: quarantineUntil })) return removeCommand(namespace, era, registry);
  if (!canBeShortened({ clock, era, opensAt: quarantineUntil, maxClockSkew })) return undefined;
  return `Wait. Or, if each process that got a worker ID of this namespace from this store before has stopped, or none ever did: ${endCommand(namespace, era, registry)}`;
}
