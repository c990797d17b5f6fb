import type { PoolBounds } from "../../id/pool-bounds.ts";
import { shuffled } from "../shuffled.ts";

/** A random sample of a pool: up to `most` numbers. */
export function sample({ first, last }: PoolBounds, most: number): number[] {
  const size = last - first + 1;
  if (size <= 4 * most) return shuffled(range(first, last)).slice(0, most);
  const drawn = Array.from({ length: most }, () => first + Math.floor(Math.random() * size));
  return [...new Set(drawn)];
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
}
