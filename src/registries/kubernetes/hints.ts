import type { Stored } from "../../rule/window.ts";
import type { LeaseContent, LeaseNames, LeaseObject } from "./objects.ts";
import { annotation } from "./objects.ts";
import { objectOf } from "./records.ts";

/*
 * What a claim saw of a whole pool, for the next claims. A list of thousands of objects has some MB. No claim believes hints: it reads a
 * worker ID that looks free before it takes it. Only if none of several is free, it lists the pool again.
 */

/** The worker IDs that have a record, each with the end of its window, Unix ms; Infinity for a pinned worker ID. */
export interface PoolHints {
  /** When the pool was listed, Unix ms. */
  readonly at: number;
  readonly ends: ReadonlyMap<number, number>;
}

/** The base of the numbers in hints. Each byte has seven bits, and its highest bit means that another byte follows. */
const base = 128;

export function hintsOf(records: readonly Stored[], at: number): PoolHints {
  const ends = records.map(
    ({ workerId, until, pinned }) => [workerId, pinned === undefined ? until : Infinity] as const,
  );
  return { at, ends: new Map(ends) };
}

/** The object with these hints. It replaces the object that was read. */
export function hintsObject(names: LeaseNames, { at, ends }: PoolHints, before: LeaseObject | undefined): LeaseContent {
  const bytes: number[] = [];
  let last = -1;
  for (const [workerId, end] of [...ends].toSorted(([a], [b]) => a - b)) {
    push(bytes, workerId - last - 1);
    push(bytes, end === Infinity ? 0 : 1 + Math.max(0, Math.ceil((end - at) / 1000)));
    last = workerId;
  }
  const value = { at, ends: Buffer.from(bytes).toString("base64") };
  return objectOf(names.hints, names.labels, before, { [annotation.hints]: value });
}

/** The hints of an object; undefined if it has no readable hints. */
export function readHints(object: LeaseContent | undefined): PoolHints | undefined {
  const text = object?.metadata.annotations[annotation.hints];
  if (text === undefined) return undefined;
  try {
    const { at, ends } = JSON.parse(text) as { readonly at?: unknown; readonly ends?: unknown };
    if (typeof at !== "number" || typeof ends !== "string") return undefined;
    return { at, ends: endsIn(Buffer.from(ends, "base64"), at) };
  } catch {
    return undefined;
  }
}

function endsIn(bytes: Buffer, at: number): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  let place = 0;
  const next = (): number => {
    let value = 0;
    for (let factor = 1; place < bytes.length; factor *= base) {
      const byte = bytes[place++] ?? 0;
      value += (byte % base) * factor;
      if (byte < base) break;
    }
    return value;
  };
  for (let last = -1; place < bytes.length;) {
    last += next() + 1;
    const rest = next();
    ends.set(last, rest === 0 ? Infinity : at + (rest - 1) * 1000);
  }
  return ends;
}

function push(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= base; rest = Math.floor(rest / base)) bytes.push(base + (rest % base));
  bytes.push(rest);
}
