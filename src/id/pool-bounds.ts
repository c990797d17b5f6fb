/** Worker IDs `first` to `last`, both included. */
export interface PoolBounds {
  readonly first: number;
  readonly last: number;
}

/** Whether a number is a worker ID of a pool. */
export function isIn({ first, last }: PoolBounds, workerId: number): boolean {
  return Number.isSafeInteger(workerId) && workerId >= Math.max(0, first) && workerId <= last;
}
