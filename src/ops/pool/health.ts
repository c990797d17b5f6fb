import { timeText } from "../../id/errors.ts";
import { grouped } from "../../id/notation.ts";
import { isSealed } from "../../rule/era.ts";
import { type ClaimReports, quarantineOf } from "./alarms.ts";
import { briefForecast, layoutEnd } from "./forecast.ts";
import type { Look, Picture } from "./pool-watch.ts";

/** A fact that an operator looks at first. `fail`: the registry grants nothing, or a failure has happened. `warn`: one may happen soon. */
export interface HealthFact {
  readonly kind: "ok" | "warn" | "fail";
  readonly name: string;
  readonly text: string;
  /** End of a countdown after the text, Unix ms. */
  readonly until?: number | undefined;
}

/** Operators are warned this long before a pool is full, ms. */
const notice = 28 * 24 * 3_600_000;

/** The health of a namespace. It always has the same facts in the same order. Clock and layout appear only with a problem. */
export function healthOf(
  picture: Picture,
  { problem, refused, quarantine }: Pick<Look, "problem"> & ClaimReports,
): readonly HealthFact[] {
  return [
    registryFact(picture, problem),
    quarantineFact(quarantine ?? quarantineOf(picture)),
    poolFact(picture),
    refusedFact(refused),
    overdueFact(picture),
    clockFact(picture),
    layoutFact(picture),
  ].filter((fact) => fact !== undefined);
}

/** The worst kind of the facts. */
export function worstOf(facts: readonly HealthFact[]): HealthFact["kind"] {
  return (["fail", "warn"] as const).find((kind) => facts.some((fact) => fact.kind === kind)) ?? "ok";
}

function registryFact({ latency, clock }: Picture, problem: Look["problem"]): HealthFact {
  const name = "Registry";
  if (problem === undefined) return { kind: "ok", name, text: `answers in ${Math.max(1, Math.ceil(latency))} ms` };
  const what = problem.code === "REGISTRY_UNAVAILABLE" ? "does not answer" : `answers ${problem.code}`;
  return { kind: "fail", name, text: `${what}, last seen at ${timeText(clock).slice(11, 19)}Z` };
}

function quarantineFact(quarantine: ReturnType<typeof quarantineOf>): HealthFact {
  const name = "Quarantine";
  if (quarantine === undefined) return { kind: "ok", name, text: "none" };
  const { until } = quarantine;
  if (isSealed({ opensAt: until })) return { kind: "fail", name, text: "until the removal is done" };
  return { kind: "fail", name, text: "ends in", until };
}

function poolFact({ counts, read, forecast, clock }: Picture): HealthFact {
  const name = "Pool";
  if (read < 1) return { kind: "ok", name, text: `${Math.floor(100 * read)} % read so far` };
  const left = counts.free + counts.unused;
  if (left === 0) return { kind: "fail", name, text: "full" };
  const brief = briefForecast(forecast, clock);
  const isSoon = forecast?.fullAt !== undefined && forecast.fullAt - clock < notice;
  return {
    kind: isSoon ? "warn" : "ok",
    name,
    text: `${grouped(left)} left${brief === undefined ? "" : `, ${brief}`}`,
  };
}

function refusedFact(refused: ClaimReports["refused"]): HealthFact {
  const name = "Refused claims";
  if (refused === undefined) return { kind: "ok", name, text: "none in 15 min" };
  return { kind: "fail", name, text: `${grouped(refused.count)} in 15 min` };
}

function overdueFact({ overdue: { count }, counts }: Picture): HealthFact {
  const name = "Overdue renewals";
  if (count === 0) return { kind: "ok", name, text: "none" };
  return { kind: "warn", name, text: `${grouped(count)} of ${grouped(Math.max(count, counts.live))}` };
}

function clockFact({ offset, latency, info }: Picture): HealthFact | undefined {
  // The measured offset has an error of up to half of the latency.
  if (Math.abs(offset) - Math.ceil(latency / 2) <= info.maxClockSkew) return undefined;
  return {
    kind: "fail",
    name: "This daemon’s clock",
    text: `${grouped(Math.abs(offset))} ms ${offset > 0 ? "ahead" : "behind"}`,
  };
}

function layoutFact({ layout, clock }: Picture): HealthFact | undefined {
  const { status } = layoutEnd(layout, clock);
  if (status === "ok") return undefined;
  const day = timeText(layout.endOfLife).slice(0, 10);
  return { kind: status, name: "Layout", text: status === "fail" ? `ended on ${day}` : `ends on ${day}` };
}
