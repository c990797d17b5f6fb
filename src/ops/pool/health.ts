import type { SnowleaseError } from "../../id/errors.ts";
import { grouped } from "../../id/notation.ts";
import { type ClaimReports, quarantineOf } from "./alarms.ts";
import { layoutEnd } from "./forecast.ts";
import type { Look, Picture } from "./pool-watch.ts";

/** One thing that has to be well. `unknown`: nothing recent is known of it. */
export interface HealthPart {
  readonly name: "Registry" | "Quarantine" | "Pool" | "Refused claims" | "Renewals" | "Layout";
  readonly kind: "ok" | "unknown" | "warn" | "fail";
  readonly value: string;
  /** The end that `value` leads up to, Unix ms. */
  readonly until?: number | undefined;
  /** What an operator does about it. */
  readonly advice?: string | undefined;
}

/** An operator is warned when less than this share of a pool is left. */
const scarce = 0.1;

/** The health of a namespace in its parts, always in the same order. */
export function healthOf({ picture, problem }: Look, known: ClaimReports = {}): readonly HealthPart[] {
  const parts = [
    registryPart(picture, problem, known),
    quarantinePart(picture, known),
    picture && poolPart(picture),
    picture && refusedPart(known),
    picture && renewalsPart(picture),
    picture && layoutPart(picture),
  ].filter((part) => part !== undefined);
  // A registry that is away proves nothing well; what this daemon refused it knows itself.
  return parts.map((part) =>
    problem !== undefined && part.kind === "ok" && part.name !== "Refused claims" ? { ...part, kind: "unknown" } : part,
  );
}

function registryPart(
  picture: Picture | undefined,
  problem: SnowleaseError | undefined,
  { failed }: ClaimReports,
): HealthPart {
  const name = "Registry";
  if (problem !== undefined) {
    const value = problem.code === "REGISTRY_UNAVAILABLE" ? "does not answer" : problem.code;
    const advice = "Check that the store runs and that this daemon reaches it; run `snowlease doctor`.";
    return { name, kind: "fail", value, advice };
  }
  if (failed !== undefined) {
    const value = `${grouped(failed.count)} calls failed in 15 min`;
    const advice = "Check whether the store takes writes: see the last message below, and run `snowlease doctor`.";
    return { name, kind: failed.goesOn ? "fail" : "warn", value, advice };
  }
  if (picture === undefined) return { name, kind: "ok", value: "answers" };
  const { offset, latency, info } = picture;
  // The difference is known to half of the round trip.
  if (Math.abs(offset) - latency / 2 <= info.maxClockSkew) {
    return { name, kind: "ok", value: `answers in ${Math.ceil(latency)} ms` };
  }
  const value = `its clock differs by ${grouped(Math.abs(offset))} ms`;
  return { name, kind: "fail", value, advice: "Set the wrong clock: the registry refuses this daemon's claims." };
}

function quarantinePart(picture: Picture | undefined, known: ClaimReports): HealthPart | undefined {
  const name = "Quarantine";
  const { quarantine = picture && quarantineOf(picture) } = known;
  if (quarantine === undefined) return picture && { name, kind: "ok", value: "none" };
  const advice = "Wait for its end, or run `snowlease quarantine` to see more.";
  return { name, kind: "fail", value: "ends in", until: quarantine.until, advice };
}

function poolPart({ counts, pool, read }: Picture): HealthPart {
  const name = "Pool";
  if (read < 1) return { name, kind: "unknown", value: `${Math.floor(100 * read)} % read so far` };
  const size = pool.last - pool.first + 1;
  const left = counts.free + counts.unused;
  const value = `${grouped(left)} of ${grouped(size)} left`;
  if (left >= size * scarce) return { name, kind: "ok", value };
  const advice = "Stop holders that are not needed, use a larger pool, or another namespace.";
  return { name, kind: left === 0 ? "fail" : "warn", value, advice };
}

function refusedPart({ refused }: ClaimReports): HealthPart {
  const name = "Refused claims";
  if (refused === undefined) return { name, kind: "ok", value: "none in 15 min" };
  const advice = `The last reason is ${refused.last.code}: see its message below.`;
  return { name, kind: "fail", value: `${grouped(refused.count)} in 15 min`, advice };
}

function renewalsPart({ overdue: { count }, read }: Picture): HealthPart {
  const name = "Renewals";
  if (count === 0)
    return read < 1 ? { name, kind: "unknown", value: "not read yet" } : { name, kind: "ok", value: "in time" };
  const advice = "Check these holders: their process, clock and network.";
  return { name, kind: "warn", value: `${grouped(count)} overdue`, advice };
}

function layoutPart({ layout, clock }: Picture): HealthPart | undefined {
  const { status } = layoutEnd(layout, clock);
  if (status === "ok") return undefined;
  const value = status === "fail" ? "ran out" : "ends soon";
  return { name: "Layout", kind: status, value, advice: "Move to another layout, in another namespace." };
}
