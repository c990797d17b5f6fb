import { hash } from "node:crypto";

/** What a registry keeps of a claim's token, 32 hex digits: the store's content alone does not let a reader renew a lease. */
export function storedToken(token: string): string {
  return hash("sha256", token).slice(0, 32);
}
