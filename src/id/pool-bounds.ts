/** Worker IDs `first` to `last`, both included. */
export interface PoolBounds {
  readonly first: number;
  readonly last: number;
}
