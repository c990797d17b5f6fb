import { hash } from "node:crypto";

/** Stored tokens by token: a holder sends the same token with each renewal. */
const stored = new Map<string, string>();
/** How many of them are kept. */
const mostStored = 10_000;

/** What a registry keeps of a claim's token, 32 hex digits: the store's content alone does not let a reader renew a lease. */
export function storedToken(token: string): string {
  const known = stored.get(token);
  if (known !== undefined) return known;
  const made = hash("sha256", token).slice(0, 32);
  if (stored.size >= mostStored) stored.clear();
  stored.set(token, made);
  return made;
}
