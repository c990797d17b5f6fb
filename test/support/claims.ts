import { randomBytes } from "node:crypto";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimKey, ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";

/** A new token, as a lease makes it. */
const newToken = (): string => randomBytes(16).toString("hex");

/** A claim of any worker ID, by a holder without special properties, for a window of 2 s. */
export function claimRequest(wish: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    namespace: "orders",
    token: newToken(),
    pool: defaultLayout.pool,
    holder: { host: "alpha", ip: "10.0.0.1", pid: 4711, instance: "" },
    clock: Date.now(),
    window: 2000,
    layout: defaultLayout.fingerprint,
    ...wish,
  };
}

/** The fields that name a granted claim. */
export function keyOf({ namespace, token }: ClaimRequest, { workerId, fence }: Grant): ClaimKey {
  return { namespace, workerId, fence, token };
}

/** Claims a worker ID. Fails unless the claim is granted. */
export async function granted(registry: Registry, request: ClaimRequest): Promise<Grant> {
  const answer = await registry.claim(request);
  if (answer.outcome !== "granted") throw new Error(`It was refused: ${JSON.stringify(answer)}`);
  return answer;
}
