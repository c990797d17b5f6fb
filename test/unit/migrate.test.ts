import { describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { pinEach, unpinEach } from "../../src/registries/pin-batches.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import { applyPlan, revertPlan } from "../../src/ops/migrate/apply.ts";
import { makePlan, type Plan } from "../../src/ops/migrate/plan.ts";
import { planText, readPlan } from "../../src/ops/migrate/plan-file.ts";
import type { SourceContents, Maker } from "../../src/ops/migrate/source.ts";
import { migrationStatus, prepareFinish } from "../../src/ops/migrate/status.ts";
import { addressWorkerId } from "../../src/assigners/ip.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { messageOf } from "../support/failures.ts";

const layout = layouts.westid;
const namespace = "orders";
const maxClockSkew = 10_000;

/** A plan of hosts with these addresses, or of other findings. */
async function planFor(
  addresses: readonly string[],
  {
    findings = {},
    registry,
    now = 1_700_000_000_000,
  }: { findings?: Partial<SourceContents>; registry?: Registry; now?: number } = {},
): ReturnType<typeof makePlan> {
  const makers = addresses.map((address): Maker => {
    return { name: `host-${address}`, address, workerId: addressWorkerId(address, layout) };
  });
  const reach = { next: "none", highest: -1 } as const;
  const all: SourceContents = { makers, retired: [], reach, takesOver: true, remarks: [], ...findings };
  const about = { layout, sourceLayout: layout, numbers: 1024 };
  return makePlan(all, { namespace, ...about, from: "ip", source: "hosts.txt", now, registry });
}

describe("a plan", () => {
  test("names those first whose numbers collide, also with what is leased already", async () => {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const holder = { host: "other", ip: "10.9.9.9", pid: 1, instance: "" };
    await granted(registry, claimRequest({ workerId: 5, holder, clock: clock.now() }));
    const { plan, outlook } = await planFor(["10.0.0.1", "10.0.0.5", "10.0.0.2", "10.0.4.2"], { registry });
    expect(plan.hosts.map(({ workerId, renumbered }) => [workerId, renumbered])).toEqual([
      [2, "collides with host-10.0.4.2 (10.0.4.2)"],
      [2, "collides with host-10.0.0.2 (10.0.0.2)"],
      [5, "collides with other (10.9.9.9), in the registry"],
      [1, undefined],
    ]);
    expect(outlook).toEqual({
      collisions: [
        { workerId: 2, hosts: ["host-10.0.0.2 (10.0.0.2)", "host-10.0.4.2 (10.0.4.2)"] },
        { workerId: 5, hosts: ["host-10.0.0.5 (10.0.0.5)", "other (10.9.9.9), in the registry"] },
      ],
      size: 1024,
      kept: 1,
      renumbered: 3,
      retired: 2,
      taken: 0,
      left: 1021,
    });
  });

  test("with a number that the layout has not is refused", async () => {
    const makers = [{ name: "a", workerId: 1024 }];
    await expect(planFor([], { findings: { makers } })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("is read back as it was written, and refused where it was spoiled", async () => {
    const { plan } = await planFor(["10.0.0.1", "10.0.0.2", "10.0.4.2"], {
      findings: { retired: [{ first: 7, last: 9, why: "burnt", forGood: true }] },
    });
    expect(readPlan(planText(plan), "plan.json")).toEqual(plan);
    const [first, second, third] = plan.hosts;
    for (const [change, rule] of [
      ["no JSON", "a migration plan (JSON), got `no JSON`"],
      [[], "Invalid input"],
      [{ ...plan, version: 2 }, "`version`"],
      [{ ...plan, more: 1 }, "more"],
      [{ ...plan, namespace: "Orders" }, "`namespace`"],
      [{ ...plan, hosts: [{ ...third, workerId: 1.5 }] }, "`hosts[0].workerId`"],
      [{ ...plan, hosts: [{ ...third, workerId: 1024 }] }, "`hosts[0].workerId` from 0 to 1023"],
      [{ ...plan, hosts: [{ ...third, address: "10.0.0" }] }, "`hosts[0].address`"],
      [{ ...plan, hosts: [{ ...third, address: "2001:DB8::1" }] }, "`hosts[0].address`"],
      [{ ...plan, hosts: [{ ...third, name: "a\nb" }] }, "`hosts[0].name`"],
      [{ ...plan, hosts: [{ workerId: 1, name: "x" }] }, "`hosts[0].address`, got nothing"],
      [{ ...plan, hosts: [first, { ...second, renumbered: undefined }] }, "`hosts[1].renumbered` for worker 2"],
      [
        {
          ...plan,
          hosts: [
            { ...third, workerId: 2 },
            { ...third, workerId: 2 },
          ],
        },
        "`hosts[1].renumbered` for worker 2",
      ],
      [{ ...plan, retired: [{ first: 9, last: 7, why: "x" }] }, "`retired[0]`"],
      [{ ...plan, retired: [{ first: 9, last: 4000, why: "x" }] }, "`retired[0].last` from 0 to 1023"],
    ] as const) {
      const text = typeof change === "string" ? change : JSON.stringify(change);
      const message = messageOf(() => readPlan(text, "plan.json"));
      expect(message).toMatch(/^CONFIG_INVALID: [^\n]*correct plan\.json, or make a new plan\.$/);
      expect(message).toContain(rule);
    }
  });
});

describe("a migration", () => {
  const ips = ["10.0.0.1", "10.0.0.2", "10.0.4.2", "10.0.0.3"] as const;

  async function begun(): Promise<{ registry: Registry; clock: ReturnType<typeof fakeClock>; plan: Plan }> {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    await registry.init({ namespace, layout: layout.fingerprint, maxWindow: 600_000 });
    const { plan } = await planFor(ips, { now: clock.now() });
    return { registry, clock, plan };
  }

  const holderAt = (ip: string): { host: string; ip: string; pid: number; instance: string } => {
    return { host: `host-${ip}`, ip, pid: 1, instance: "" };
  };

  test("pins what is used, and once only; takes all back; leaves other pins as they are", async () => {
    const { registry, clock, plan } = await begun();
    await registry.pin(namespace, 3, "kept by an operator");
    await registry.pin(namespace, 9, "migration: of another plan");
    const others = [{ workerId: 3, reason: "kept by an operator" }];
    expect(await applyPlan({ registry, plan })).toEqual({ pinned: 2, unchanged: 0, others, left: [9] });
    const pins = async (): Promise<unknown> =>
      (await registry.workers(namespace)).map(({ workerId, pinned, owner }) => [workerId, pinned, owner]);
    const first = await pins();
    expect(first).toEqual([
      [1, "migration: used by host-10.0.0.1 (10.0.0.1)", "10.0.0.1"],
      [2, "migration: retired, used by host-10.0.0.2 (10.0.0.2), host-10.0.4.2 (10.0.4.2)", undefined],
      [3, "kept by an operator", undefined],
      [9, "migration: of another plan", undefined],
    ]);
    expect(await applyPlan({ registry, plan })).toEqual({ pinned: 0, unchanged: 2, others, left: [9] });
    expect(await applyPlan({ registry, plan }, true)).toMatchObject({ pinned: 1 });
    expect(await registry.worker(namespace, 1)).toMatchObject({ owner: undefined });
    await applyPlan({ registry, plan });
    expect(await pins()).toEqual(first);
    expect(await revertPlan({ registry, plan })).toEqual({ unpinned: 3, live: 0 });
    expect(await pins()).toEqual([[3, "kept by an operator", undefined]]);
    await applyPlan({ registry, plan });
    const { workerId } = await granted(registry, claimRequest({ namespace, clock: clock.now() }));
    await expect(revertPlan({ registry, plan })).rejects.toMatchObject({
      code: "WORKER_ID_HELD",
      message: expect.stringMatching(
        new RegExp(`^1 worker ID is leased \\(${workerId} by .*\\), and .* \`--force\`\\.$`),
      ) as string,
    });
    expect(await revertPlan({ registry, plan }, true)).toEqual({ unpinned: 2, live: 1 });
    expect(await revertPlan({ registry, plan })).toEqual({ unpinned: 0, live: 1 });
  });

  test("pins for nobody what somebody holds who may close its window before its host's last use", async () => {
    const { registry, clock, plan } = await begun();
    const request = claimRequest({ workerId: 1, holder: holderAt("10.7.7.7"), clock: clock.now() });
    const grant = await granted(registry, request);
    const used = plan.hosts.map((host) => (host.workerId === 1 ? { ...host, usedUntil: clock.now() + 1 } : host));
    expect(await applyPlan({ registry, plan: { ...plan, hosts: used } })).toMatchObject({ pinned: 3 });
    await registry.release({ ...keyOf(request, grant), clock: clock.now(), used: { until: grant.from } });
    expect(await registry.worker(namespace, 1)).toMatchObject({ state: "pinned", owner: undefined });
    const claim = claimRequest({ workerId: 1, holder: holderAt(ips[0]), clock: clock.now() });
    expect(await registry.claim(claim)).toMatchObject({ outcome: "pinned" });
  });

  test("of thousands is pinned in steps, shows how far it is, and goes on where it was broken off", async () => {
    const { registry } = await begun();
    const steps: number[] = [];
    const inBulk: Registry = {
      ...registry,
      async pinAll(name, pins) {
        if (steps.length === 2) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It broke off.");
        steps.push(pins.length);
        await pinEach(registry, name, pins);
      },
      unpinAll: (name, workerIds) => unpinEach(registry, name, workerIds),
    };
    const { plan } = await planFor(Array.from({ length: 200 }, (_, i) => `10.0.0.${i + 1}`));
    const shown: [number, number][] = [];
    const request = { registry: inBulk, plan, onProgress: (done: number, of: number) => void shown.push([done, of]) };
    await expect(applyPlan(request)).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect(shown).toEqual([0, 64, 128].map((done) => [done, 200]));
    expect(await registry.workers(namespace, { state: "pinned" })).toHaveLength(128);
    steps.pop();
    steps.pop();
    expect(await applyPlan(request)).toMatchObject({ pinned: 72, unchanged: 128 });
    expect(await registry.workers(namespace, { state: "pinned" })).toHaveLength(200);
    expect(await revertPlan(request)).toEqual({ unpinned: 200, live: 0 });
  });

  test("needs the namespace, and its layout, and the one that the plan is for", async () => {
    const { registry, plan } = await begun();
    const refused = async (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => "",
        ({ code }: { code: string }) => code,
      );
    expect(await refused(applyPlan({ registry: memoryRegistry(), plan }))).toBe("NOT_FOUND");
    expect(await refused(applyPlan({ registry, plan: { ...plan, layout: layouts.twitter.fingerprint } }))).toBe(
      "LAYOUT_MISMATCH",
    );
    expect(await refused(migrationStatus({ registry, plan, named: "bills" }))).toBe("CONFIG_INVALID");
    const late = plan.hosts.map((host) => ({ ...host, usedUntil: 8e15 }));
    expect(await refused(applyPlan({ registry, plan: { ...plan, hosts: late } }))).toBe("CONFIG_INVALID");
    expect(await registry.workers(namespace)).toEqual([]);
  });

  test("tells who has moved, who is still on the old scheme, and who shares a number", async () => {
    const { registry, clock, plan } = await begun();
    await applyPlan({ registry, plan });
    const states = async (): Promise<Record<string, string>> => {
      const { hosts } = await migrationStatus({ registry, plan });
      return Object.fromEntries(hosts.map(({ address = "", state }) => [address, state]));
    };
    expect(await states()).toEqual({ [ips[0]]: "old", [ips[1]]: "conflict", [ips[2]]: "conflict", [ips[3]]: "old" });
    /** Claims, and uses the window; `ends`: gives it back at once. */
    const claim = async (ip: string, workerId?: number, ends: boolean = false): Promise<number> => {
      const request = claimRequest({ holder: holderAt(ip), clock: clock.now(), workerId });
      const grant = await granted(registry, request);
      const used = { until: grant.from + 1 };
      if (ends) await registry.release({ ...keyOf(request, grant), clock: clock.now(), used });
      return grant.workerId;
    };
    expect(await claim(ips[2], undefined, true)).toBe(0);
    expect(await states()).toEqual({ [ips[0]]: "old", [ips[1]]: "old", [ips[2]]: "stopped", [ips[3]]: "old" });
    // What it had goes to somebody else: its history tells.
    expect(await claim(ips[1], 0)).toBe(0);
    expect(await states()).toEqual({ [ips[0]]: "old", [ips[1]]: "moved", [ips[2]]: "stopped", [ips[3]]: "old" });
    await registry.unpin(namespace, 3);
    const counts = { moved: 1, stopped: 1, old: 2, conflict: 0, unpinned: [3] };
    expect(await migrationStatus({ registry, plan })).toMatchObject(counts);
    expect(await claim("10.7.7.7", 3)).toBe(3);
    expect((await states())[ips[3]]).toBe("conflict");
  });

  test("a host that gets another worker ID has moved once it may have used it, or has shown that it did", async () => {
    const { registry, clock, plan } = await begun();
    await applyPlan({ registry, plan });
    const stateOf = async (ip: string): Promise<unknown> =>
      (await migrationStatus({ registry, plan })).hosts.find(({ address }) => address === ip)?.state;
    const start = async (ip: string, workerId: number): Promise<{ key: ReturnType<typeof keyOf>; grant: Grant }> => {
      const request = claimRequest({ holder: holderAt(ip), clock: clock.now(), workerId });
      const grant = await granted(registry, request);
      return { key: keyOf(request, grant), grant };
    };
    // Its window is open at once, but its program could not be started.
    const failed = await start(ips[1], 100);
    await registry.release({ ...failed.key, clock: clock.now(), used: { until: failed.grant.from } });
    expect(await stateOf(ips[1])).toBe("conflict");
    const crashed = await start(ips[1], 101);
    expect(crashed.grant.from).toBeLessThan(clock.now());
    expect(await stateOf(ips[1])).toBe("moved");

    // One that continues behind another holder, and ends before its own window begins, tells of an ID.
    const before = await start("10.7.7.7", 102);
    const recents = { from: before.grant.from, bytes: Uint8Array.of() };
    await registry.release({ ...before.key, clock: clock.now(), used: { until: clock.now() + 5, recents } });
    const next = await start(ips[2], 102);
    expect(next.grant).toMatchObject({ from: clock.now() + 5, recents });
    const checkpoint = { timestamp: clock.now(), sequence: 0 };
    await registry.release({ ...next.key, clock: clock.now(), used: { until: next.grant.from, checkpoint } });
    expect(await stateOf(ips[2])).toBe("stopped");
  });

  /** Claims of the host that goes on with its worker ID, 1, and what `status` says of it. */
  async function host(): Promise<{
    readonly clock: ReturnType<typeof fakeClock>;
    readonly registry: Registry;
    readonly plan: Plan;
    readonly start: () => Promise<{ request: ClaimRequest; grant: Grant }>;
    readonly seen: () => Promise<unknown>;
  }> {
    const { registry, clock, plan } = await begun();
    await applyPlan({ registry, plan });
    const start = async (): Promise<{ request: ClaimRequest; grant: Grant }> => {
      const request = claimRequest({ holder: holderAt(ips[0]), clock: clock.now() });
      return { request, grant: await granted(registry, request) };
    };
    const seen = async (): Promise<unknown> => {
      const { hosts } = await migrationStatus({ registry, plan });
      const { state, claimed, unused, rivals } = hosts.find(({ address }) => address === ips[0]) ?? {};
      return [state, claimed?.at, unused?.at, rivals];
    };
    return { clock, registry, plan, start, seen };
  }

  test("a start that still waits, was refused or was killed before its window opened moves no host", async () => {
    const { clock, registry, start, seen } = await host();
    const begin = clock.now();
    const refused = await start();
    expect(refused.grant).toMatchObject({ workerId: 1, from: begin + maxClockSkew });
    expect(await seen()).toEqual(["old", undefined, begin, undefined]);
    await clock.advance(1000);
    const unused = { until: refused.grant.from };
    await registry.release({ ...keyOf(refused.request, refused.grant), clock: clock.now(), used: unused });
    expect(await seen()).toEqual(["old", undefined, begin, undefined]);
    // This one is killed: its window opens, and passes.
    const killed = await start();
    expect(killed.grant.from).toBe(refused.grant.from + 1000);
    await clock.advance(maxClockSkew);
    expect(await seen()).toEqual(["old", undefined, begin + 1000, undefined]);
    await clock.advance(killed.grant.until - clock.now());
    expect(await seen()).toEqual(["old", undefined, begin + 1000, undefined]);
    // The next one takes it over, and is refused, too: only the history knows of the one before.
    const next = await start();
    await registry.release({
      ...keyOf(next.request, next.grant),
      clock: clock.now(),
      used: { until: next.grant.from },
    });
    expect(await seen()).toEqual(["old", undefined, killed.grant.until, undefined]);
  });

  test("a host has moved once its window is known to be in use; it is told apart when it does not run", async () => {
    const { clock, registry, plan, start, seen } = await host();
    const first = await start();
    await clock.advance(maxClockSkew);
    await registry.renew({ ...keyOf(first.request, first.grant), clock: clock.now(), window: 60_000 });
    const { claimedAt } = (await registry.worker(namespace, 1)) ?? {};
    expect(await seen()).toEqual(["moved", claimedAt, undefined, undefined]);
    await registry.release({ ...keyOf(first.request, first.grant), clock: clock.now() });
    expect(await seen()).toEqual(["stopped", claimedAt, undefined, undefined]);
    // It may run the old way now. Its next start waits: it has moved, and is not running now.
    await clock.advance(70_000);
    const next = await start();
    expect(next.grant.workerId).toBe(1);
    expect(await seen()).toEqual(["stopped", claimedAt, clock.now(), undefined]);
    const forced = await prepareFinish({ registry, plan, named: undefined }, 60_000, true);
    expect(forced.readyAt).toBe(clock.now() + 60_000 + maxClockSkew);
    // An ID that it made tells as much as a renewal.
    await clock.advance(maxClockSkew);
    const used = { until: next.grant.from + 1, checkpoint: { timestamp: next.grant.from, sequence: 0 } };
    await registry.release({ ...keyOf(next.request, next.grant), clock: clock.now(), used });
    expect(await seen()).toEqual(["stopped", next.grant.clock, undefined, undefined]);
  });

  test("does not count a claim from before the plan that is over", async () => {
    const { registry, clock, plan } = await begun();
    const request = claimRequest({ holder: holderAt(ips[0]), clock: clock.now(), workerId: 100 });
    const grant = await granted(registry, request);
    await clock.advance(1000);
    const later: Plan = { ...plan, createdAt: clock.now() };
    expect(await migrationStatus({ registry, plan: later })).toMatchObject({ moved: 1 });
    await registry.release({ ...keyOf(request, grant), clock: clock.now(), used: { until: grant.from } });
    expect(await migrationStatus({ registry, plan: later })).toMatchObject({ moved: 0 });
  });

  test("ends one window and maxClockSkew after the last host, and not before what is known to be used", async () => {
    const { registry, clock, plan } = await begun();
    const [host] = plan.hosts.filter(({ renumbered }) => renumbered === undefined);
    const usedUntil = clock.now() + 300_000;
    const used: Plan = { ...plan, hosts: host === undefined ? [] : [{ ...host, usedUntil }] };
    await applyPlan({ registry, plan: used });
    await clock.advance(5000);
    const forced = await prepareFinish({ registry, plan: used }, 60_000, true);
    expect([forced.readyAt, forced.pins.length]).toEqual([usedUntil, 1]);
    const request = claimRequest({ holder: holderAt(ips[0]), clock: clock.now() });
    const grant = await granted(registry, request);
    expect([grant.workerId, grant.from]).toEqual([1, usedUntil]);
    const claimedAt = clock.now();
    await clock.advance(usedUntil - claimedAt);
    await registry.renew({ ...keyOf(request, grant), clock: clock.now(), window: 60_000 });
    const { readyAt } = await prepareFinish({ registry, plan: used }, 60_000, false);
    expect(readyAt).toBe(claimedAt + 60_000 + maxClockSkew);
  });
});
