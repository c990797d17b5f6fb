import { describe, expect, it } from "vitest";
import { Snowflake } from "../../src/generator/snowflake.ts";
import { layouts } from "../../src/id/layout.ts";
import { Lease, type LeaseOptions } from "../../src/lease/lease.ts";
import type { ClaimRequest, ReleaseRequest } from "../../src/rule/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";

const window = 60_000;

/** A generator on a lease whose store can be replaced, and what the registry hears. */
async function newWorld(onLost: LeaseOptions["onLost"]) {
  const clock = fakeClock();
  const memory = memoryRegistry({ clock });
  const store = { isReplaced: false };
  const [claims, releases]: [ClaimRequest[], ReleaseRequest[]] = [[], []];
  const registry: typeof memory = {
    ...memory,
    async claim(request) {
      claims.push(request);
      const answer = await memory.claim(request);
      return answer.outcome === "granted" && claims.length === 1 ? { ...answer, store } : answer;
    },
    async release(request) {
      releases.push(request);
      return memory.release(request);
    },
  };
  const lease = await Lease.claim(
    { registry, clock, makeToken: () => String(claims.length).padStart(32, "0") },
    {
      namespace: "orders",
      layout: layouts.westid,
      pool: { first: 0, last: 7 },
      window,
      claimTimeout: 0,
      maxWait: 500,
      operationTimeout: 1000,
      reuse: "any",
      onLost,
      holder: { host: "here", ip: "", pid: 1, instance: "" },
    },
  );
  const ids = new Snowflake(lease);
  await clock.advance(1);
  ids.next();
  return { clock, claims, releases, ids, replace: () => (store.isReplaced = true) };
}

describe("a lease whose store was replaced", () => {
  it.each(["stop", "switch"] as const)("tells the new one what it used, with its receipt (%s)", async (onLost) => {
    const { clock, claims, releases, ids, replace } = await newWorld(onLost);
    replace();
    await clock.advance(1);
    expect(() => ids.next()).toThrow(
      expect.objectContaining({ code: onLost === "stop" ? "LEASE_LOST" : "LEASE_EXPIRED" }),
    );
    await clock.advance(1000);
    expect(releases).toMatchObject([
      { workerId: 0, receipt: expect.any(String), used: { checkpoint: { sequence: 0 } } },
    ]);
    expect(claims).toHaveLength(onLost === "stop" ? 1 : 2);
    await ids.close();
  });

  it("makes no ID of it before a renewal is due", async () => {
    const { clock, ids, replace } = await newWorld("stop");
    replace();
    await clock.advance(200);
    expect(ids.lease.state).toBe("lost");
    await ids.close();
  });
});
