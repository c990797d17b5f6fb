import { refuse } from "./check.ts";

/** A time: a number of ms, or a text with its unit, such as `500ms`, `2s`, `1m`, `1h`. A text without a unit is refused, except `0`. */
export type Duration = number | string;

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** A text needs its unit, unless it is 0: a user who writes `30` may mean seconds. */
const pattern = /^(?:0|(0|[1-9][0-9]{0,9})(ms|s|m|h))$/;

/** Reads a time such as `500ms`, `30s`, `2m` or `1h`, in ms; undefined for any other text. */
export function durationOf(text: string): number | undefined {
  const [whole, number = "0", unit = "ms"] = pattern.exec(text) ?? [];
  return whole === undefined ? undefined : Number(number) * (units[unit] ?? Number.NaN);
}

/** Reads a time of at least `least` ms, in ms. @throws SnowleaseError CONFIG_INVALID */
export function checkDuration(name: string, value: unknown, least: number, most: number = Infinity): number {
  const ms = typeof value === "string" ? durationOf(value) : value;
  if (typeof ms === "number" && ms >= least && ms <= most) return ms;
  const range = most === Infinity ? `at least ${least} ms` : `from ${least} to ${most} ms`;
  return refuse(name, `to be a time such as \`500ms\` or \`2s\`, or a number of ms: ${range}`, value);
}

/** A length of time for people, as in `2 h 5 min`, `10 min 32 s`, `12 s` or `500 ms`: rounded up to seconds from one second on. */
export function lengthText(ms: number): string {
  if (ms > 0 && ms < 1000) return `${Math.ceil(ms)} ms`;
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const parts = [
    [Math.floor(seconds / 3600), "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ] as const;
  const shown = parts.filter(([count]) => count > 0).map(([count, unit]) => `${count} ${unit}`);
  return shown.length === 0 ? "0 s" : shown.join(" ");
}
