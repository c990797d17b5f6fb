/** A time: a number of ms, or text with a unit, such as `500ms`, `2s`, `1m`, `1h`. */
export type Duration = number | string;

/** Of a whole number: at most 10 digits, without leading zeros. */
export const decimal = "(?:0|[1-9][0-9]{0,9})";
const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const pattern = new RegExp(`^(${decimal})(ms|s|m|h)?$`);

/** Reads a time written as text, ms; undefined for any other text. */
export function readDuration(text: string): number | undefined {
  const [, number, unit = "ms"] = pattern.exec(text) ?? [];
  return number === undefined ? undefined : Number(number) * (units[unit] ?? Number.NaN);
}
