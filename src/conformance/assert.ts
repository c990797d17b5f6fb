import { isSnowleaseError, type ErrorCode, type SnowleaseError } from "../id/errors.ts";

/** Longest text of a value in a message. */
const longest = 400;

/** Throws unless `holds` is true: `Expected the fence to rise above 3, got 3.` */
export function ensure(holds: boolean, expectation: string, seen: unknown): asserts holds {
  if (!holds) throw new Error(`Expected ${expectation}, got ${shortened(textOf(seen))}.`);
}

/** Throws unless both values are equal; an absent property equals an undefined one. */
export function equal(seen: unknown, expected: unknown, what: string): void {
  const text = textOf(expected);
  ensure(textOf(seen) === text, `${what} to be ${shortened(text)}`, seen);
}

/** Throws unless the value is an integer, such as a Unix ms, in [low, high]. */
export function between(seen: number | undefined, low: number, high: number, what: string): void {
  const holds = seen !== undefined && Number.isSafeInteger(seen) && seen >= low && seen <= high;
  ensure(holds, `${what} to be an integer from ${low} to ${high}`, seen);
}

/** Returns the answer if it has this outcome. Throws for any other outcome. */
export function outcome<Answer extends { readonly outcome: string }, Name extends Answer["outcome"]>(
  answer: Answer,
  name: Name,
  what: string,
): Extract<Answer, { readonly outcome: Name }> {
  ensure(answer.outcome === name, `${what} to be answered \`${name}\``, answer);
  return answer as Extract<Answer, { readonly outcome: Name }>;
}

/** How an operation ends: its outcome, or the code of its error. Never rejects. */
export function endOf(operation: Promise<{ readonly outcome: string }>): Promise<string> {
  return operation.then(
    ({ outcome }) => outcome,
    (error: unknown) => (isSnowleaseError(error) ? error.code : String(error)),
  );
}

/** Throws unless an operation ends in one of these ways. */
export async function endsIn(end: string | Promise<string>, expected: readonly string[], what: string): Promise<void> {
  const seen = await end;
  ensure(expected.includes(seen), `${what} to be answered ${expected.join(" or ")}`, seen);
}

/** Throws unless the operation rejects with this code, and a message of one line. */
export async function refuses(code: ErrorCode, what: string, operation: Promise<unknown>): Promise<SnowleaseError> {
  const error = await operation.then(
    (answer) => ensure(false, `${what} to be refused with ${code}`, answer),
    (error: unknown) => error,
  );
  ensure(isSnowleaseError(error, code), `${what} to be refused with a SnowleaseError ${code}`, error);
  ensure(!/[\r\n]/.test(error.message), "an error's message to be one line", error.message);
  return error;
}

/** A value as text, equal for equal values: sorted keys, no undefined properties, bytes in hex, errors with their details. */
export function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return `bytes(${Buffer.from(value).toString("hex")})`;
  if (Array.isArray(value)) return `[${value.map(textOf).join(", ")}]`;
  if (value instanceof Error) return textOf(Object.fromEntries([...Object.entries(value), ["message", value.message]]));
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    const sorted = entries.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${sorted.map(([key, item]) => `${key}: ${textOf(item)}`).join(", ")}}`;
  }
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

function shortened(text: string): string {
  return text.length > longest ? `${text.slice(0, longest)}...` : text;
}
