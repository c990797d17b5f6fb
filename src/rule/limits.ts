import { configInvalid, shown, SnowleaseError, timeText } from "../id/errors.ts";

/** Limits of a namespace, stored at its creation. */
export interface NamespaceLimits {
  /** Longest window that a holder may request, ms. Default 2 min. */
  readonly maxWindow: number;
  /** Largest tolerated difference between a holder's clock and the registry's, ms. Default 10 s. */
  readonly maxClockSkew: number;
}

/** The present era of a namespace, and its quarantine. */
export interface EraInfo {
  /** When grants and renewals go on, Unix ms; absent if no quarantine lasts. */
  readonly quarantineUntil?: number | undefined;
  /** The end of the last quarantine as the store set it, Unix ms, even if an operator ended it earlier; absent if there was none. */
  readonly quarantineEnd?: number | undefined;
  /** The era's name: `EndQuarantineRequest.era`. */
  readonly era?: string | undefined;
}

/** A namespace's id, layout, limits and quarantine. The id changes only when a copy is separated. Layout and limits never change. */
export interface NamespaceInfo extends NamespaceLimits, EraInfo {
  /** 32 random hex digits, made with the namespace. Two stores with the same id are copies, for the same use. */
  readonly id?: string | undefined;
  /** Fingerprint of the layout, from the first claim or `init`. */
  readonly layout: string;
}

/** How long the history keeps a claim after the end of its window, ms. It keeps the last claim of each worker ID forever. */
export const historyKept: number = 30 * 24 * 3_600_000;

/** The limits of a namespace that was created without limits. */
export const defaultLimits: NamespaceLimits = { maxWindow: 120_000, maxClockSkew: 10_000 };

/** The limits that a registry assumes for a namespace that it may have forgotten. */
export const assumedLimits: NamespaceLimits = { maxWindow: 600_000, maxClockSkew: 10_000 };

/** Refuses a request whose clock is too far from the registry's. @throws SnowleaseError CLOCK_SKEW */
export function checkSkew(holderClock: number, clock: number, info: NamespaceInfo): void {
  const { maxClockSkew } = info;
  const skew = holderClock - clock;
  if (Math.abs(skew) <= maxClockSkew) return;
  const clocks = `The holder's clock shows ${timeText(holderClock)}, the registry's ${timeText(clock)}`;
  const difference = `${Math.abs(skew)} ms ${skew > 0 ? "ahead" : "behind"}, and at most ${maxClockSkew} ms is tolerated`;
  const details = { holderClock, registryClock: clock, maxClockSkew };
  throw new SnowleaseError("CLOCK_SKEW", `${clocks}: ${difference}; set the wrong clock.`, details);
}

/** Refuses a layout other than the namespace's. @throws SnowleaseError LAYOUT_MISMATCH */
export function checkLayout(namespace: string, layout: string, info: NamespaceInfo): void {
  if (layout === info.layout) return;
  const stored = info.layout;
  const both = `Namespace \`${namespace}\` has the layout ${stored}, and this process asks with ${layout}`;
  const advice = "their IDs could be equal; set the same layout, or use another namespace.";
  throw new SnowleaseError("LAYOUT_MISMATCH", `${both}: ${advice}`, { stored, asked: layout });
}

/** Refuses a window that is longer than the namespace allows. @throws SnowleaseError CONFIG_INVALID */
export function checkWindow(window: number, info: NamespaceInfo): void {
  if (Number.isSafeInteger(window) && window >= 1 && window <= info.maxWindow) return;
  throw configInvalid(
    `Expected \`window\` to be from 1 to ${info.maxWindow} ms (the namespace's maxWindow), got ${shown(window)}; ask for a shorter one, or use a namespace that was created with a larger maxWindow (\`snowlease init --max-window\`).`,
  );
}

/** Refuses limits that differ from the namespace's. @throws SnowleaseError CONFIG_INVALID */
export function checkLimits(namespace: string, asked: Partial<NamespaceInfo>, info: NamespaceInfo): void {
  for (const name of ["maxWindow", "maxClockSkew"] as const) {
    const value = asked[name];
    if (value === undefined || value === info[name]) continue;
    throw configInvalid(
      `Namespace \`${namespace}\` was created with ${name} ${info[name]} ms, got ${shown(value)}; leave the option out, or use another namespace.`,
    );
  }
}
