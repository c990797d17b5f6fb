type SettledAll<Each extends readonly unknown[]> = { -readonly [Index in keyof Each]: Awaited<Each[Index]> };

/** Waits until all of these promises have settled, so that none of them still uses the connection. Throws the first error. */
export async function together<Each extends readonly unknown[]>(work: readonly [...Each]): Promise<SettledAll<Each>> {
  await Promise.allSettled(work);
  return Promise.all(work);
}
