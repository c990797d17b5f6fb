import { describe, expect, it } from "vitest";
import type { Snowflake } from "../../src/generator/snowflake.ts";
import type { Mode } from "../../src/generator/tick-allocator.ts";
import { coded, open } from "../support/generator.ts";

const makers: Record<string, (ids: Snowflake) => unknown> = {
  next: (ids) => ids.next(),
  nextString: (ids) => ids.nextString("crockford32"),
  fill: (ids) => ids.fill(new BigUint64Array(10)),
  take: (ids) => ids.take(10),
  fillText: (ids) => ids.fillText(new Uint8Array(100)),
};

/** A generator that knows from the monotonic clock that its tick goes on: it makes the next IDs without a look at lease or wall clock. */
async function openTick(mode: Mode): Promise<Snowflake> {
  const { ids, clock } = await open({ mode });
  for (const ms of [0.9, 0.2]) {
    await clock.advance(ms);
    for (let i = 0; i < 3; i++) ids.next();
  }
  return ids;
}

describe.each(["wall", "lead"] as const)("in %s mode, the rest of an open tick", (mode) => {
  it.each(Object.entries(makers))(
    "is made by nobody after close(), before it is answered either: %s",
    async (_, make) => {
      const { ids } = await open({ mode });
      for (let i = 0; i < 3; i++) ids.next();
      const closing = ids.close();
      expect(() => make(ids)).toThrow(coded("LEASE_LOST"));
      await closing;
      expect(() => make(ids)).toThrow(coded("LEASE_LOST"));
    },
  );

  it.each(Object.entries(makers))("is made by nobody after suspend(): %s", async (_, make) => {
    const ids = await openTick(mode);
    const suspending = ids.suspend();
    expect(() => make(ids)).toThrow(coded("LEASE_EXPIRED"));
    await suspending;
    expect(() => make(ids)).toThrow(coded("LEASE_EXPIRED"));
    await ids.close();
  });
});
