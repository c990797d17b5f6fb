import { randomBytes } from "node:crypto";
import { expect } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { readReceipt } from "../../src/rule/receipt.ts";

/**
 * Begins a quarantine. A holder has the receipt of a renewal that this registry does not know, as after an older copy of a store was put
 * back. `now`: the holder's clock, Unix ms.
 */
export async function beginQuarantine(
  registry: Registry,
  namespace: string,
  now: () => number = Date.now,
): Promise<void> {
  const key = { namespace, token: randomBytes(16).toString("hex") };
  const terms = { window: 1000, layout: defaultLayout.fingerprint, pool: defaultLayout.pool };
  const holder = { host: "alpha", ip: "192.0.2.1", pid: 4711, instance: "" };
  const grant = await registry.claim({ ...key, ...terms, holder, clock: now() });
  if (grant.outcome !== "granted" || grant.receipt === undefined) throw new Error(`No grant: ${JSON.stringify(grant)}`);
  const { workerId, fence, receipt } = grant;
  const parts = receipt.split(".");
  // The field with the number of renewals.
  parts[6] = String(Number(parts[6]) + 1);
  const newer = parts.join(".");
  expect(readReceipt(newer)?.renewals).toBe((readReceipt(receipt)?.renewals ?? 0) + 1);
  const renewal = registry.renew({ ...key, workerId, fence, clock: now(), window: 1000, receipt: newer });
  await expect(renewal).rejects.toMatchObject({ code: "QUARANTINE" });
}
