/**
 * Sets a wall clock: `offset` seconds ahead of the machine's from now on, and `rate` seconds pass on it in a second. Writes into the
 * existing file, since programs have it in their memory.
 */
export function setWallClock(path: string, offset: number, rate?: number): void;
