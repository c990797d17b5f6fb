const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** A text needs its unit, unless it is 0: who writes `30` may well mean seconds. */
const pattern = /^(?:0|(0|[1-9][0-9]{0,9})(ms|s|m|h))$/;

/** Reads a time such as `500ms`, `30s`, `2m` or `1h`, in ms; undefined for any other text. */
export function durationOf(text: string): number | undefined {
  const [whole, number = "0", unit = "ms"] = pattern.exec(text) ?? [];
  return whole === undefined ? undefined : Number(number) * (units[unit] ?? Number.NaN);
}
