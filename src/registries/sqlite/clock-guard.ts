import { readFileSync, statSync } from "node:fs";
import { SnowleaseError, timeText } from "../../id/errors.ts";
import type { Sql } from "./database.ts";
import type { Row } from "./driver.ts";

/*
 * Holder and registry share one clock here, so comparing them tells nothing. But a wall clock cannot outrun the time since boot:
 * one that jumps ahead would let every window look as if it had passed, and `until` be stored far in the future.
 */

/** The time since boot. */
export interface Uptime {
  /** Changes with every boot. */
  readonly boot: string;
  /** Since then, suspended time included, ms. */
  readonly ms: number;
}

/** Below the resolution of the time since boot, ms: not worth a write. */
const resolution = 20;

/**
 * This machine's; undefined where it has none (not Linux), or where a container shows a time since its own start, which ends
 * and begins anew inside one boot.
 */
export function machineUptime(): Uptime | undefined {
  try {
    if (statSync("/proc/uptime").dev !== statSync("/proc").dev) return undefined;
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const ms = Math.round(Number.parseFloat(readFileSync("/proc/uptime", "latin1")) * 1000);
    return boot !== "" && Number.isSafeInteger(ms) ? { boot, ms } : undefined;
  } catch {
    return undefined;
  }
}

const advice = "set it right, or run `snowlease doctor --accept-clock` if it is right now";

/** The namespace that is asked. */
interface Guarded {
  readonly id: number;
  readonly info: { readonly maxClockSkew: number };
}

/**
 * Notes how far the wall clock is ahead of the time since boot, and refuses it when that is more than this namespace accepted in
 * this boot by more than its `maxClockSkew`. One that has accepted nothing yet starts from the least that another one did.
 * @throws SnowleaseError CLOCK_SKEW
 */
export function guardClock(sql: Sql, { id, info }: Guarded, now: number, uptime: Uptime | undefined): void {
  if (uptime === undefined) return;
  const { boot, ms } = uptime;
  const { maxClockSkew } = info;
  const own = sql.get("clock.of-namespace", { namespace_id: id, boot });
  const ahead = now - ms;
  const accepted = Number((own ?? leastAccepted(sql, boot))?.["ahead"] ?? ahead);
  const by = ahead - accepted;
  if (by > maxClockSkew) {
    throw new SnowleaseError(
      "CLOCK_SKEW",
      `The clock shows ${timeText(now)}, and by the time since boot it should show ${timeText(now - by)}: ${by} ms ahead, and at most ` +
        `${maxClockSkew} ms is tolerated; ${advice}.`,
      { clock: now, expected: now - by, maxClockSkew },
    );
  }
  if (own === undefined || by > resolution) {
    sql.run("clock.accept", { namespace_id: id, boot, ahead: Math.max(accepted, ahead) });
  }
}

/** Refuses the wall clock where any namespace would refuse it, and notes nothing. @throws SnowleaseError CLOCK_SKEW */
export function checkClock(sql: Sql, now: number, uptime: Uptime | undefined): void {
  if (uptime === undefined) return;
  const { boot, ms } = uptime;
  const most = sql.get("clock.most", { boot })?.["ahead"] ?? null;
  const by = now - ms - Number(most);
  if (most === null || by <= 0) return;
  throw new SnowleaseError(
    "CLOCK_SKEW",
    `The clock shows ${timeText(now)}, and by the time since boot that is ${by} ms more than is tolerated; ${advice}.`,
    { clock: now },
  );
}

/** Takes the wall clock as it is, for every namespace. Returns how far it is ahead of the least that was accepted before, ms. */
export function acceptClock(sql: Sql, now: number, uptime: Uptime | undefined): number {
  if (uptime === undefined) return 0;
  const { boot, ms } = uptime;
  const ahead = now - ms;
  const by = ahead - Number(leastAccepted(sql, boot)?.["ahead"] ?? ahead);
  sql.run("clock.accept-for-all", { boot, ahead });
  const detail = `${by} ms ahead, at ${timeText(now)}`;
  sql.run("clock.note-operation", { done_at: now, kind: "accept-clock", detail });
  return by;
}

function leastAccepted(sql: Sql, boot: string): Row | undefined {
  return sql.get("clock.least", { boot });
}
