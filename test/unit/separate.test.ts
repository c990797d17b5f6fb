import { describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { separateCopy } from "../../src/ops/separate.ts";
import { Unanswered } from "../../src/registries/engine/operate.ts";
import { newNamespace } from "../../src/rule/new-namespace.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { stubRegistry } from "../support/stub-registry.ts";

const namespace = "orders";

describe("an operator who separates a copy", () => {
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

  test("is refused while a window is open, with the end of the last one, and nothing is changed", async () => {
    const { clock, registry, separate } = await used();
    const before = await registry.describe(namespace);
    const until = new Date(clock.now() + 60_000).toISOString();
    for (const who of ["2 holders have", "a holder has"]) {
      const message = new RegExp(
        `^The registry staging is in use: ${who} a worker ID of namespace \`orders\` \\(worker `,
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

  test("is refused in another era before anything else, where the namespace is unknown, and where the registry cannot do it", async () => {
    const { registry, era } = await used();
    const ask = (other: object, where = registry) => separateCopy(where, { namespace, era, ...other }, "staging");
    await expect(ask({ era: "1-a" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await expect(ask({ namespace: "none" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { separate: _, ...without } = registry;
    await expect(ask({}, { ...without, kind: "daemon" })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });
});

test("a write without an answer is not taken for that of another operator", async () => {
  const first = newNamespace(defaultLayout.fingerprint, {}, 1000, undefined);
  let made = first;
  let writes = 0;
  const registry = stubRegistry({
    read: async () => ({ clock: 1000, standing: { made }, found: [] }),
    async commit({ becomes }) {
      made = becomes?.made ?? made;
      writes++;
      throw new Unanswered("the answer was lost");
    },
  });
  const request = { namespace, era: made.era.era };
  const info = await registry.separate?.(request);
  expect([info?.id, info?.era, writes]).toEqual([made.info.id, made.era.era, 1]);
  expect(info?.id).not.toBe(first.info.id);
  await expect(registry.separate?.(request)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
});
