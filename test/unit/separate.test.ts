import { describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { separateCopy } from "../../src/ops/separate.ts";
import { compareAndSetRegistry } from "../../src/registries/compare-and-set/registry.ts";
import type { CompareAndSetStore, StoreAttempt, VersionedRecord } from "../../src/registries/compare-and-set/store.ts";
import { newNamespace } from "../../src/rule/new-namespace.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";

const namespace = "orders";

describe("the separation of a copy", () => {
  async function used() {
    const clock = fakeClock();
    const registry = memoryRegistry({ clock });
    const claim = async (window: number) => {
      const request = claimRequest({ window, clock: clock.now() });
      return keyOf(request, await granted(registry, request));
    };
    const keys = [await claim(30_000), await claim(60_000)];
    const era = (await registry.describe(namespace))?.era ?? "";
    return { clock, registry, keys, era, separate: () => separateCopy(registry, { namespace, era }, "staging") };
  }

  test("is refused while a window is open: the error has the end of the last window, and nothing changes", async () => {
    const { clock, registry, separate } = await used();
    const before = await registry.describe(namespace);
    const until = new Date(clock.now() + 60_000).toISOString();
    for (const holders of ["2 holders have", "a holder has"]) {
      const message = new RegExp(
        `^The registry staging is in use: ${holders} a worker ID of namespace \`orders\` \\(worker `,
      );
      const refusal = await separate().catch((error: Error) => error);
      expect(refusal).toMatchObject({ code: "WORKER_ID_HELD", message: expect.stringMatching(message) as string });
      expect(refusal).toHaveProperty("message", expect.stringContaining(`the last window ends at ${until}`));
      expect(await registry.describe(namespace)).toEqual(before);
      await clock.advance(30_000);
    }
    const { originalId, info } = await separate();
    expect(originalId).toBe(before?.id);
    expect(await registry.describe(namespace)).toEqual(info);
  });

  test("does not wait for a window without a holder", async () => {
    const { clock, registry, keys, separate } = await used();
    for (const key of keys) await registry.release({ ...key, clock: clock.now() });
    expect((await registry.workers(namespace)).map(({ state }) => state)).toEqual(["resting", "resting"]);
    await separate();
  });

  test("is refused in another era before any other check, in an unknown namespace, and if the registry cannot do it", async () => {
    const { registry, era } = await used();
    const ask = (other: object, where = registry) => separateCopy(where, { namespace, era, ...other }, "staging");
    await expect(ask({ era: "1-a" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await expect(ask({ namespace: "none" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { separate: _, ...without } = registry;
    await expect(ask({}, { ...without, kind: "daemon" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });
});

test("does not take a write without an answer for another operator's", async () => {
  const made = newNamespace(defaultLayout.fingerprint, {}, 1000, undefined);
  let state = { ...made.era, info: made.info, clock: 1000 };
  let writes = 0;
  const attempt = {
    look: async () => state,
    async replace({ info, era }: typeof made) {
      state = { ...state, ...era, info };
      writes++;
      throw new Error("the answer was lost");
    },
  } as unknown as StoreAttempt<VersionedRecord>;
  const store = {
    kind: "stub",
    title: "The stub",
    attempt: (_: string, __: object, work: (tried: typeof attempt) => Promise<unknown>) =>
      work(attempt).catch(() => work(attempt)),
  } as unknown as CompareAndSetStore<VersionedRecord>;
  const registry = compareAndSetRegistry(store);
  const request = { namespace, era: state.era };
  const info = await registry.separate?.(request);
  expect([info?.id, info?.era, writes]).toEqual([state.info.id, state.era, 1]);
  expect(info?.id).not.toBe(made.info.id);
  await expect(registry.separate?.(request)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});
