import { describe, expect, test } from "vitest";
import { pinWorkers, unpinWorkers } from "../../src/ops/workers.ts";
import { memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted } from "../support/claims.ts";

const namespace = "orders";

async function pinned(registry = memoryRegistry()): Promise<Record<number, string | undefined>> {
  const found = await registry.workers(namespace, { state: "pinned" });
  return Object.fromEntries(found.map(({ workerId, pinned }) => [workerId, pinned]));
}

describe("pins", () => {
  test("keep worker IDs out of the pool until they are taken away", async () => {
    const registry = memoryRegistry();
    await granted(registry, claimRequest());
    await pinWorkers(registry, namespace, [1, 2], "taken by the old host");
    expect(await pinned(registry)).toEqual({ 1: "taken by the old host", 2: "taken by the old host" });
    expect(await granted(registry, claimRequest())).toMatchObject({ workerId: 3 });
    await pinWorkers(registry, namespace, [2], "reserved");
    await unpinWorkers(registry, namespace, [1]);
    expect(await pinned(registry)).toEqual({ 2: "reserved" });
    expect(await granted(registry, claimRequest())).toMatchObject({ workerId: 1 });
  });

  test("with an impossible one among them pin nothing", async () => {
    const registry = memoryRegistry();
    await granted(registry, claimRequest());
    for (const [workerIds, reason] of [
      [[1, 1024], "reserved"],
      [[1], " "],
      [[1], "a\nb"],
    ] as const) {
      await expect(pinWorkers(registry, namespace, workerIds, reason)).rejects.toMatchObject({
        code: "CONFIG_INVALID",
      });
    }
    expect(await pinned(registry)).toEqual({});
  });

  test("that do not exist cannot be removed; the others are", async () => {
    const registry = memoryRegistry();
    await granted(registry, claimRequest());
    await pinWorkers(registry, namespace, [1], "reserved");
    await expect(unpinWorkers(registry, namespace, [0, 1, 9])).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringMatching(/`orders`: 0, 9; the others are unpinned; see/) as string,
    });
    expect(await pinned(registry)).toEqual({});
    await expect(unpinWorkers(registry, namespace, [1])).rejects.toThrow(/`orders`: 1; see/);
  });

  test("need a namespace", async () => {
    const registry = memoryRegistry();
    for (const asked of [pinWorkers(registry, namespace, [1], "reserved"), unpinWorkers(registry, namespace, [1])]) {
      await expect(asked).rejects.toMatchObject({ code: "NOT_FOUND" });
    }
    expect(await registry.describe(namespace)).toBeUndefined();
  });
});
