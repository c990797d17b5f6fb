import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import type * as sqlFiles from "../../src/registries/sql-files.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { ClaimKey, ClaimRequest, Grant, Lost, Registry, Renewal } from "../../src/rule/registry.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { namespace, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

/** What is put in place of a piece of a script before it is sent. */
const mistake = vi.hoisted(() => ({ file: "", right: "", wrong: "" }));

vi.mock("../../src/registries/sql-files.ts", async (original) => {
  const real = await original<typeof sqlFiles>();
  return {
    ...real,
    readSql(file: string): string {
      const text = real.readSql(file);
      if (file !== mistake.file) return text;
      if (!text.includes(mistake.right)) throw new Error(`${file} has no \`${mistake.right}\`.`);
      return text.replace(mistake.right, () => mistake.wrong);
    },
  };
});

const window = 300;
const limits = { maxWindow: window, maxClockSkew: 600 };

/** What is asked first of the server that has forgotten, before anything else. */
type First = "init" | "claim" | "renewal";

/** Scripts with one mistake each, and what it leads to. */
const mistakes: readonly {
  fault: string;
  file: string;
  right: string;
  wrong: string;
  first: First;
  leadsTo: string[];
}[] = [
  {
    fault: "never notices that the server is another one",
    file: "redis/includes/quarantine.lua",
    right: "if not own then",
    wrong: "if meta.replId == nil then",
    first: "claim",
    leadsTo: ["a claim overlaps", "a renewal overlaps"],
  },
  {
    fault: "does not wait for windows to pass",
    file: "redis/includes/quarantine.lua",
    right: "local length = longest + 2 * widest + (maxLag or 0)",
    wrong: "local length = 0",
    first: "claim",
    leadsTo: ["a claim overlaps"],
  },
  {
    fault: "grants without looking",
    file: "redis/claim.lua",
    right: "local _, isDoubtful = checkQuarantine(maxLag, mark, clock)",
    wrong: "local _, isDoubtful",
    first: "claim",
    leadsTo: ["a claim overlaps"],
  },
  {
    fault: "begins a window before the quarantine ended",
    file: "redis/claim.lua",
    right: "now - skew, meta.opensAt",
    wrong: "now - skew",
    first: "claim",
    leadsTo: ["a window begins too early"],
  },
  {
    fault: "does not raise the fence above forgotten ones",
    file: "redis/claim.lua",
    right: "math.max(past.fence, meta.opensAt) + 1",
    wrong: "past.fence + 1",
    first: "claim",
    leadsTo: ["a fence comes again"],
  },
  {
    fault: "continues behind recents of before",
    file: "redis/claim.lua",
    right: "return record.era == meta.era",
    wrong: "return true",
    first: "claim",
    leadsTo: ["two continue behind the same recents"],
  },
  {
    fault: "answers a claim of before that is repeated with its window of before",
    file: "redis/claim.lua",
    right: "if not sameEra(record) then",
    wrong: "if false then",
    first: "claim",
    leadsTo: ["a repeated claim begins too early"],
  },
  {
    fault: "renews without looking",
    file: "redis/renew.lua",
    right: "local _, isDoubtful = checkQuarantine(maxLag, mark, clock)",
    wrong: "local _, isDoubtful",
    first: "renewal",
    leadsTo: ["a renewal overlaps"],
  },
  {
    fault: "renews a window as if it had never been closed",
    file: "redis/renew.lua",
    right: "record.from = math.max(record.from, meta.opensAt)",
    wrong: "",
    first: "renewal",
    leadsTo: ["a renewal overlaps"],
  },
  {
    fault: "lets `init` end any quarantine",
    file: "redis/init.lua",
    right: "checkQuarantine(maxLag, mark)\nif isNew == '1' and",
    wrong: "beginEra(redis.call('INFO', 'replication'), 0, 0, mark)\nif isNew == '1' and",
    first: "init",
    leadsTo: ["a claim overlaps", "a renewal overlaps"],
  },
];

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "a Redis started from an old copy", () => {
  let server: RedisServer;
  let registry: Registry;

  afterEach(async () => {
    await registry.close();
    await server.remove();
  });

  /** A claim whose window has passed when the copy is made, and by whom it is. */
  async function expired(workerId: number): Promise<{ grant: Grant; key: ClaimKey }> {
    const request = claimRequest({ workerId, window: 1 });
    const grant = await granted(registry, request);
    return { grant, key: keyOf(request, grant) };
  }

  /** Asks until there is something else than a quarantine. */
  async function insist<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      let answer: Answer | undefined;
      const error = await failure(ask().then((given) => (answer = given))).catch(() => undefined);
      if (error === undefined) return answer as Answer;
      if (error.code !== "QUARANTINE") throw error;
      await sleep(Math.min(100, error.details.retryAfterMs ?? 100));
    }
  }

  /** What went wrong when a server forgot three grants. */
  async function damage(first: First): Promise<string[]> {
    server = await RedisServer.start(["--appendonly", "no"]);
    registry = await openRedis(server.url("?maxLag=0"));
    const layout = defaultLayout.fingerprint;
    await registry.init({ new: true, namespace, layout, ...limits });
    await expired(7);
    const repeating = claimRequest({ workerId: 6, window: 1 });
    await granted(registry, repeating);
    const renewing = await expired(9);
    const given = await expired(8);
    const recents = { from: given.grant.from, bytes: Uint8Array.of(1) };
    await registry.release({ ...given.key, clock: Date.now(), used: { until: given.grant.from + 1, recents } });
    await sleep(20);
    await server.client().save();

    const wish = (workerId: number): ClaimRequest => claimRequest({ workerId, window });
    // Forgotten: the next holders, as far ahead as they may be.
    const ahead = { clock: Date.now() + 200 };
    const [seven, nine] = [
      await granted(registry, { ...wish(7), ...ahead }),
      await granted(registry, { ...wish(9), ...ahead }),
    ];
    expect((await granted(registry, wish(8))).recents).toBeDefined();
    await server.kill();
    await server.start();

    const claimAgain = (): Promise<Grant> => insist(() => granted(registry, wish(7)));
    const renewAgain = (): Promise<Renewal | Lost> =>
      insist(() => registry.renew({ ...renewing.key, clock: Date.now(), window }));
    if (first === "init") await registry.init({ namespace, layout });
    const early = first === "renewal" ? await renewAgain() : undefined;
    const claim = await claimAgain();
    const renewal = early ?? (await renewAgain());
    const continued = await insist(() => granted(registry, wish(8)));
    const repeated = await registry.claim({ ...repeating, clock: Date.now() });
    const repeatedFrom = repeated.outcome === "granted" ? repeated.from : Infinity;
    if (renewal.outcome !== "renewed") throw new Error("The renewal was lost.");
    const told = {
      "a claim overlaps": claim.from < seven.until,
      "a renewal overlaps": renewal.from < nine.until,
      "a window begins too early": claim.from < (await quarantineOf(server)),
      "a repeated claim begins too early": repeatedFrom < (await quarantineOf(server)),
      "a fence comes again": claim.fence <= seven.fence,
      "two continue behind the same recents": continued.recents !== undefined,
    };
    return Object.entries(told).flatMap(([what, isSo]) => (isSo ? [what] : []));
  }

  test.each(["init", "claim", "renewal"] as const)("does no damage, asked for a %s first", async (first) => {
    Object.assign(mistake, { file: "" });
    expect(await damage(first)).toEqual([]);
  });

  test.each(mistakes)("does, when it $fault", async ({ file, right, wrong, first, leadsTo }) => {
    Object.assign(mistake, { file, right, wrong });
    expect(await damage(first)).toEqual(expect.arrayContaining(leadsTo));
  });
});
