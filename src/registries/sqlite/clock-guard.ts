import { readFileSync, statSync } from "node:fs";
import { uptime as secondsSinceBoot } from "node:os";
import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { SqliteStatements } from "./statements.ts";

/*
 * Holder and registry share one clock, so a comparison of their clocks shows nothing. Instead, the wall clock is compared with the time
 * since boot. After a jump ahead, every window would look as if it had passed, and `until` would be stored far in the future.
 */

/** The time since boot. */
export interface Uptime {
  /** Identifies the boot. Each boot has another value. */
  readonly boot: string;
  /** Time since then, including the time that the machine was suspended, ms. */
  readonly ms: number;
}

/** The resolution of the time since boot, ms. A smaller difference needs no write. */
const resolution = 20;

/** Read at the first call, because it stays the same while a program runs. Empty if the time since this boot is not known. */
let bootId: string | undefined;

/** This machine's time since boot. Undefined if there is none (not Linux), or if a container shows the time since its own start. */
export function machineUptime(): Uptime | undefined {
  const boot = (bootId ??= readBoot());
  return boot === "" ? undefined : { boot, ms: Math.round(secondsSinceBoot() * 1000) };
}

function readBoot(): string {
  try {
    const isMachines = statSync("/proc/uptime").dev === statSync("/proc").dev;
    return isMachines ? readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim() : "";
  } catch {
    return "";
  }
}

/** The clock that a namespace accepted last. */
export interface ClockAcceptance {
  readonly maxClockSkew: number;
  /** The boot in which the namespace accepted it. Absent if it has accepted none yet. */
  readonly boot: unknown;
  /** How far the clock was ahead of the time since boot, ms. */
  readonly ahead: number;
}

const advice = "set it right, or, if it is right now, run `snowlease doctor --accept-clock` for this registry";

/**
 * Refuses the wall clock if it is too far ahead of the time since boot: by more than `maxClockSkew` compared with what the namespace
 * accepted in this boot. A namespace that has accepted nothing yet starts from the least that another namespace accepted. Returns the
 * acceptance to note. Undefined if the noted one stays.
 * @throws SnowleaseError CLOCK_SKEW
 */
export function acceptedClock(
  sql: SqliteStatements,
  accepted: ClockAcceptance,
  now: number,
  uptime: Uptime | undefined,
): { readonly boot: string; readonly ahead: number } | undefined {
  if (uptime === undefined) return undefined;
  const { boot, ms } = uptime;
  const { maxClockSkew } = accepted;
  const ahead = now - ms;
  const isNew = accepted.boot !== boot;
  const least = isNew ? Number(sql.get("clock.least", { boot })?.["ahead"] ?? ahead) : accepted.ahead;
  const by = ahead - least;
  if (by > maxClockSkew) {
    throw new SnowleaseError(
      "CLOCK_SKEW",
      `The clock shows ${timeText(now)}, and by the time since boot it should show ${timeText(now - by)}: ${by} ms ahead, and at most ` +
        `${maxClockSkew} ms is tolerated; ${advice}.`,
      { clock: now, expected: now - by, maxClockSkew },
    );
  }
  return isNew || by > resolution ? { boot, ahead: Math.max(least, ahead) } : undefined;
}

/** Refuses the wall clock if a namespace would refuse it. Notes nothing. @throws SnowleaseError CLOCK_SKEW */
export function checkClock(sql: SqliteStatements, now: number, uptime: Uptime | undefined): void {
  if (uptime === undefined) return;
  const { boot, ms } = uptime;
  const most = sql.get("clock.most", { boot })?.["ahead"] ?? Infinity;
  const by = now - ms - Number(most);
  if (by <= 0) return;
  throw new SnowleaseError(
    "CLOCK_SKEW",
    `The clock shows ${timeText(now)}, and by the time since boot that is ${by} ms more than is tolerated; ${advice}.`,
    { clock: now },
  );
}

/** Accepts the wall clock for every namespace. Returns how far it is ahead of the least accepted one, ms. */
export function acceptClock(sql: SqliteStatements, now: number, uptime: Uptime | undefined): number {
  if (uptime === undefined) return 0;
  const { boot, ms } = uptime;
  const ahead = now - ms;
  const by = ahead - Number(sql.get("clock.least", { boot })?.["ahead"] ?? ahead);
  sql.run("clock.accept-for-all", { boot, ahead });
  const detail = `${by} ms ahead, at ${timeText(now)}`;
  sql.run("clock.note-operation", { done_at: now, kind: "accept-clock", detail });
  return by;
}
