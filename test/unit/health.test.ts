import { describe, expect, test } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { wrapRegistry } from "../../src/registries/wrap.ts";
import { makeDashboard } from "../support/dashboard.ts";
import { beginQuarantine } from "../support/quarantine.ts";

/** The parts of the health line: name -> kind and text. */
function healthIn(page: string): Record<string, string> {
  const line = /<section[^>]* id="health".*?<\/section>/s.exec(page)?.[0] ?? "";
  const plain = (text: string): string =>
    text
      .replace(/<[^>]*>/g, "")
      .replace(/\s+/g, " ")
      .trim();
  return Object.fromEntries(
    Array.from(
      line.matchAll(/<li class="(\w+)">.*?<span class="name">([^<]*)<\/span>(.*?)<\/li>/gs),
      ([, kind = "", name = "", rest = ""]) => [
        name,
        `${kind}: ${plain(rest.replace(/<(small|span class="unseen").*?<\/\w+>/gs, ""))}`,
      ],
    ),
  );
}
const kindOf = (page: string): string | undefined => /id="health" class="(\w+)"/.exec(page)?.[1];

describe("the page begins with the health of the namespace", () => {
  test("above everything else, and green only where all is well", async () => {
    const { send, claim } = makeDashboard();
    await claim("orders");
    const { text } = await send("GET", "/?namespace=orders");
    expect(healthIn(text)).toEqual({
      Registry: "ok: answers in 0 ms",
      Quarantine: "ok: none",
      Pool: "ok: 1,023 of 1,024 left",
      "Refused claims": "ok: none in 15 min",
      Renewals: "ok: in time",
    });
    expect(kindOf(text)).toBe("ok");
    expect(text.indexOf('id="health"')).toBeLessThan(text.indexOf('id="counts"'));
  });

  test("a store that only answers reads", async () => {
    let isWritable = true;
    const { send, claim } = makeDashboard({
      change: (registry) =>
        wrapRegistry(registry, ["claim"], async (_, run) => {
          if (isWritable) return run();
          throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The store is read-only.");
        }),
    });
    const line = async (): Promise<string> => (await send("GET", "/?namespace=orders")).text;
    await claim("orders");
    expect(healthIn(await line())["Registry"]).toBe("ok: answers in 0 ms");
    isWritable = false;
    for (let i = 0; i < 2; i++) await claim("orders").catch(() => undefined);
    const failing = await line();
    expect(healthIn(failing)["Registry"]).toBe("fail: 2 calls failed in 15 min");
    expect(failing).toMatch(/id="alarms".*2 calls failed.*The store is read-only\./s);
    isWritable = true;
    await claim("orders");
    expect(healthIn(await line())["Registry"]).toBe("warn: 2 calls failed in 15 min");
  });

  test("a pool that is nearly used up, one that is, and refused claims", async () => {
    const { send, claim, clock } = makeDashboard();
    const next = async (): Promise<string> => {
      await clock.advance(1000);
      return (await send("GET", "/?namespace=orders")).text;
    };
    for (let i = 0; i < 28; i++) await claim("orders", {}, { layout: "safe53" });
    expect(healthIn(await next())["Pool"]).toBe("ok: 4 of 32 left");
    await claim("orders", {}, { layout: "safe53" });
    const scarce = await next();
    expect(healthIn(scarce)["Pool"]).toBe("warn: 3 of 32 left");
    expect(kindOf(scarce)).toBe("warn");
    for (let i = 0; i < 3; i++) await claim("orders", {}, { layout: "safe53" });
    await claim("orders", {}, { layout: "safe53" }).catch(() => undefined);
    const full = await next();
    expect(healthIn(full)).toMatchObject({ Pool: "fail: 0 of 32 left", "Refused claims": "fail: 1 in 15 min" });
    expect(kindOf(full)).toBe("fail");
    // Each alarm says what to do, in words and behind its link.
    expect(full).toMatch(/<a\s+href="#outlook"\s+title="Stop holders [^"]*">/);
    expect(full).toMatch(/<a\s+href="#alarms"\s+title="The last reason is POOL_EXHAUSTED[^"]*">/);
    expect(full).toContain("<small>Stop holders that are not needed, use a larger pool, or another namespace.</small>");
  });

  test("a quarantine, with a countdown to its end", async () => {
    const { send, claim, clock, registry } = makeDashboard();
    await claim("orders");
    await beginQuarantine(registry, "orders", clock.now);
    const { quarantineEnd = 0 } = (await registry.describe("orders")) ?? {};
    await clock.advance(1000);
    const { text } = await send("GET", "/?namespace=orders");
    expect(healthIn(text)["Quarantine"]).toMatch(/^fail: ends in \d+:\d\d$/);
    expect(text).toContain(`data-until="${quarantineEnd}"`);
  });

  test("renewals that are overdue", async () => {
    const { send, claim, clock } = makeDashboard();
    await claim("orders");
    await clock.advance(45_000);
    expect(healthIn((await send("GET", "/?namespace=orders")).text)["Renewals"]).toBe("warn: 1 overdue");
  });

  test("a registry that does not answer proves nothing well, and a clock that differs is not reliable", async () => {
    let broken = false;
    let ahead = 0;
    const { send, claim, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        async ping() {
          if (broken) throw new SnowleaseError("REGISTRY_UNAVAILABLE", "It is gone.");
          const pong = await registry.ping();
          return { ...pong, clock: pong.clock - ahead };
        },
      }),
    });
    await claim("orders");
    await send("GET", "/?namespace=orders");
    broken = true;
    await clock.advance(1000);
    const { text } = await send("GET", "/?namespace=orders");
    expect(healthIn(text)).toEqual({
      Registry: "fail: does not answer",
      Quarantine: "unknown: none",
      Pool: "unknown: 1,023 of 1,024 left",
      "Refused claims": "ok: none in 15 min",
      Renewals: "unknown: in time",
    });
    expect(healthIn((await send("GET", "/?namespace=never_seen")).text)).toEqual({ Registry: "fail: does not answer" });
    broken = false;
    ahead = 12_000;
    await clock.advance(1000);
    expect(healthIn((await send("GET", "/?namespace=orders")).text)["Registry"]).toBe(
      "fail: its clock differs by 12,000 ms",
    );
  });

  test("a large pool that is not fully read yet, and a layout that has run out", async () => {
    const { send, claim, registry, clock } = makeDashboard({
      change: (registry) => ({
        ...registry,
        // Slow enough that one look cannot finish.
        async workers(namespace, page) {
          if (namespace === "big") await clock.advance(300);
          return registry.workers(namespace, page);
        },
      }),
    });
    await registry.init({ namespace: "late", layout: "timestamp:21,worker:5,sequence:5@1490346283706/1" });
    expect(healthIn((await send("GET", "/?namespace=late")).text)["Layout"]).toBe("fail: ran out");
    for (let i = 0; i <= 1000; i++) await claim("big", {}, { layout: "uid" });
    const { text } = await send("GET", "/?namespace=big");
    expect(healthIn(text)).toMatchObject({ Pool: "unknown: 0 % read so far", Renewals: "unknown: not read yet" });
  });
});
