import { type ErrorCode, timeText } from "../../id/errors.ts";
import { grouped } from "../../id/notation.ts";
import { isOfRemoved, isSealed } from "../../rule/era.ts";
import type { Picture } from "./pool-watch.ts";

/** Recently refused claims of one namespace. Times in Unix ms. */
export interface RefusedClaims {
  readonly count: number;
  /** Time at which the count began. */
  readonly since: number;
  readonly last: { readonly at: number; readonly code: ErrorCode; readonly message: string };
}

/** A problem for an operator. `fail`: claims are refused. `warn`: claims may soon be refused, or a holder may lose its window. */
export interface Alarm {
  readonly kind: "warn" | "fail";
  readonly title: string;
  readonly text: string;
}

/** A quarantine that has not ended, as the registry reported it. */
export interface Quarantine {
  readonly until: number;
  readonly message: string;
}

/** Facts that a daemon knows in addition to the picture. */
export interface ClaimReports {
  readonly refused?: RefusedClaims | undefined;
  readonly quarantine?: Quarantine | undefined;
}

/** The problems of a namespace, the worst first. */
export function alarmsOf(picture: Picture | undefined, known: ClaimReports = {}): readonly Alarm[] {
  const { quarantine = picture && quarantineOf(picture), refused } = known;
  // The alarm about the quarantine covers the claims that it refused.
  const others = quarantine !== undefined && refused?.last.code === "QUARANTINE" ? undefined : refused;
  return [
    quarantine && quarantined(quarantine),
    picture && full(picture),
    others && refusals(others),
    picture && overdueIn(picture),
  ].filter((each) => each !== undefined);
}

/** The quarantine of the namespace, if its registry reports one. */
export function quarantineOf({ info, clock }: Picture): Quarantine | undefined {
  const { quarantineUntil: until = 0, quarantineEnd = until } = info;
  if (until <= clock) return undefined;
  const { era = "" } = info;
  if (isSealed({ opensAt: until }))
    return { until, message: "An operator removes the namespace. It grants and renews nothing." };
  const message = isOfRemoved({ era, opensAt: until })
    ? "A namespace of this name was removed, and the windows that it granted have not all passed."
    : until < quarantineEnd
      ? "An operator ended the quarantine."
      : "The registry may have forgotten windows that it granted (it was restored, promoted, moved, formed anew or emptied). It grants and renews nothing until they have passed. `snowlease quarantine` shows the command that ends this earlier.";
  return { until, message };
}

function quarantined({ until, message }: Quarantine): Alarm {
  const again = isSealed({ opensAt: until }) ? "" : ` It grants again at ${time(until)}.`;
  return { kind: "fail", title: "QUARANTINE", text: `${message}${again}` };
}

function full({ pool, counts, read, freeAt }: Picture): Alarm | undefined {
  if (read < 1 || counts.free + counts.unused > 0) return undefined;
  const size = pool.last - pool.first + 1;
  const next =
    freeAt === undefined
      ? "A worker ID comes free when a holder releases it or stops"
      : `The first resting one comes free at ${time(freeAt)}`;
  const text = `All ${grouped(size)} worker IDs are taken, so claims are refused. ${next}; use a larger pool, or another namespace.`;
  return { kind: "fail", title: "The pool is full", text };
}

function refusals({ count, since, last }: RefusedClaims): Alarm {
  const title = `${grouped(count)} ${count === 1 ? "claim" : "claims"} refused`;
  const text = `Since ${time(since)}; the last one at ${time(last.at)}: ${last.code}. ${last.message}`;
  return { kind: "fail", title, text };
}

export function overdueIn({ overdue: { count, first }, counts }: Picture): Alarm | undefined {
  if (first === undefined) return undefined;
  const title = `${grouped(count)} ${count === 1 ? "renewal" : "renewals"} overdue`;
  const host = first.holder === undefined ? "" : ` of ${first.holder.host}`;
  const text = `${grouped(count)} of ${grouped(Math.max(count, counts.live))} holders have less than a third of their window left. Worker ${first.workerId}${host} ends first, at ${time(first.until)}.`;
  return { kind: "warn", title, text };
}

/** A time to the second, with its day, because the text may be read on another day. */
function time(ms: number): string {
  return `${timeText(ms).slice(0, 19).replace("T", " ")}Z`;
}
