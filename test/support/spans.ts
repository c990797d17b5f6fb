import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { isSnowleaseError } from "../../src/id/errors.ts";
import type { ClaimRequest, Registry, WorkerRecord } from "../../src/rule/registry.ts";
import { claimRequest, keyOf } from "./claims.ts";

/** A window as its holder knows it. */
export interface Span {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  until: number;
}

/** Claims, renews and gives back repeatedly, as one of many holders. Failed calls do not count. */
export async function liveOn(
  registry: Registry,
  wish: Pick<ClaimRequest, "holder" | "pool" | "window">,
  spans: Span[],
  goesOn: () => boolean,
): Promise<void> {
  const { window } = wish;
  while (goesOn()) {
    try {
      const request = claimRequest(wish);
      const answer = await registry.claim(request);
      if (answer.outcome !== "granted") {
        await sleep(10);
        continue;
      }
      const { workerId, fence, from } = answer;
      const span = { workerId, fence, from, until: answer.until };
      spans.push(span);
      const key = keyOf(request, answer);
      const renewal = await registry.renew({ ...key, clock: Date.now(), window });
      if (renewal.outcome !== "renewed") continue;
      span.until = renewal.until;
      if (fence % 3 === 0) continue;
      // From here on, the holder uses no later time, whatever the answer is.
      span.until = Math.max(from, renewal.until - (2 * window) / 3);
      await registry.release({ ...key, clock: Date.now(), used: { until: span.until } });
    } catch (error) {
      if (!isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) throw error;
      // A closed registry refuses at once. Without a pause, no other code would ever run again.
      await sleep(5);
    }
  }
}

/** Checks that the holders' windows do not overlap, and that the registry stores all of them. */
export function expectApart(spans: readonly Span[], workers: readonly WorkerRecord[]): void {
  const sorted = spans.toSorted((a, b) => a.workerId - b.workerId || a.fence - b.fence);
  for (const [i, span] of sorted.entries()) {
    const next = sorted[i + 1];
    if (next === undefined || next.workerId !== span.workerId) continue;
    expect(next.fence).toBeGreaterThan(span.fence);
    expect(next.from).toBeGreaterThanOrEqual(span.until);
  }
  for (const span of spans) {
    const record = workers.find(({ workerId }) => workerId === span.workerId);
    expect(span.fence).toBeLessThanOrEqual(record?.fence ?? 0);
    expect(span.until).toBeLessThanOrEqual(record?.until ?? 0);
  }
}
