import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimRequest, Registry } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { databases, type DatabaseServer } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";
import { Wire } from "../support/wire.ts";

/** What is read together, and what is written together; a claim without a number of its own reads twice. */
const [claims, others] = [3, 2];

describe.each(databases)("round trips to $name", ({ missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    let server: DatabaseServer;
    let wire: Wire;
    let registry: Registry;
    let namespace: string;
    let tests = 0;

    beforeAll(async () => {
      server = await start();
      wire = await Wire.start(server.port);
    });
    afterAll(async () => {
      await wire.stop();
      await server.remove();
    });
    beforeEach(async () => {
      namespace = `n${++tests}`;
      registry = await openSql(server.url("?poolSize=1").replace(String(server.port), String(wire.port)), 30_000);
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
    });
    afterEach(() => registry.close());

    const pool = { first: 0, last: 9 };
    const ask = (host: string, wish: Partial<ClaimRequest> = {}): ClaimRequest =>
      claimRequest({
        namespace,
        pool,
        window: 60_000,
        holder: { host, ip: "10.0.0.1", pid: 1, instance: "" },
        ...wish,
      });

    /** How many of them something takes on a connection that is there. */
    async function turnsOf<Answer>(work: () => Promise<Answer>): Promise<{ turns: number; answer: Answer }> {
      await registry.worker(namespace, 0);
      const before = wire.turns;
      const answer = await work();
      return { turns: wire.turns - before, answer };
    }

    test.each([
      { label: "in an empty pool", taken: 0, wish: {}, turns: claims },
      { label: "in a pool that is nearly full", taken: 9, wish: {}, turns: claims },
      { label: "of a number by its name", taken: 5, wish: { workerId: 7 }, turns: others },
      { label: "of one that was had before", taken: 5, wish: { preferred: [8, 9] }, turns: claims },
    ])("a claim $label takes $turns, its renewal and its release two", async ({ taken, wish, turns }) => {
      for (let workerId = 0; workerId < taken; workerId++)
        await granted(registry, ask(`other-${workerId}`, { workerId }));
      // The first claim that finds no unused number in a pool notes it.
      for (let i = 0; i < 2; i++) {
        const before = ask(`before-${i}`);
        const grant = await granted(registry, before);
        await registry.release({ ...keyOf(before, grant), clock: Date.now(), used: { until: grant.from } });
      }
      const request = ask("mine", wish);
      const claim = await turnsOf(() => registry.claim(request));
      expect([claim.answer.outcome, claim.turns]).toEqual(["granted", turns]);
      if (claim.answer.outcome !== "granted") return;
      const key = keyOf(request, claim.answer);
      const { from } = claim.answer;
      const renewal = await turnsOf(() => registry.renew({ ...key, clock: Date.now(), window: 60_000 }));
      expect([renewal.answer.outcome, renewal.turns]).toEqual(["renewed", others]);
      const release = await turnsOf(() => registry.release({ ...key, clock: Date.now(), used: { until: from } }));
      expect([release.answer.outcome, release.turns]).toEqual(["released", others]);
    });
  });
});
