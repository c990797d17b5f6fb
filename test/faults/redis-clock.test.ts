import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Registry } from "../../src/rule/registry.ts";
import { lengthText } from "../../src/id/duration.ts";
import { assumedLimits } from "../../src/rule/limits.ts";
import { claimRequest, granted, keyOf } from "../support/claims.ts";
import { Holders, init, limits, namespace, quarantineOf } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { clocksMissing, eventually, HolderProcess, WallClock } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

/** Redis' own memory allocator asks for the time before a faked one can be had: that of glibc stands in for it. */
const allocator = readdirSync("/usr/lib")
  .map((folder) => join("/usr/lib", folder, "libc_malloc_debug.so.0"))
  .find((path) => existsSync(path));
const missing =
  redisMissing ?? clocksMissing ?? (allocator === undefined ? "glibc's libc_malloc_debug is not installed" : undefined);
const hour = 3_600_000;
/** How long a quarantine of this namespace lasts. */
const usual = limits.maxWindow + 2 * limits.maxClockSkew;

describe.skipIf(missing !== undefined)(missing ?? "a Redis that starts an hour ahead", () => {
  let server: RedisServer;
  let registry: Registry;
  let holders: Holders;
  let clock: WallClock;
  let url: string;

  beforeEach(async () => {
    holders = new Holders();
    clock = new WallClock(0);
    server = await RedisServer.start();
    url = server.url("?maxLag=0");
    registry = await openRedis(url);
    await init(registry);
  });
  afterEach(async () => {
    await holders.kill();
    await registry.close();
    await server.remove();
  });

  const ask = (workerId?: number): ReturnType<typeof claimRequest> =>
    claimRequest({ workerId, window: limits.maxWindow });

  async function restartAhead(): Promise<void> {
    await server.kill();
    clock.set(hour / 1000);
    const { environment } = clock;
    server.process.environment = { ...environment, LD_PRELOAD: `${allocator} ${environment["LD_PRELOAD"]}` };
    await server.start();
  }

  test("callers whose clocks are right are refused, and no quarantine is measured by its clock; no ID twice", async () => {
    const options = { pool: "0-1", claimTimeout: 30_000 };
    const { holder } = await holders.run(url, options);
    const [claim, given] = [ask(5), ask(6)];
    const key = keyOf(claim, await granted(registry, claim));
    const grant = await granted(registry, given);
    await restartAhead();
    const now = Date.now();
    expect((await failure(registry.claim(ask()))).code).toBe("CLOCK_SKEW");
    const renewal = { ...key, clock: now, window: limits.maxWindow };
    expect((await failure(registry.renew(renewal))).code).toBe("CLOCK_SKEW");
    const recents = { from: grant.from, bytes: Uint8Array.of(1) };
    const used = { until: grant.until, recents };
    expect(await registry.release({ ...keyOf(given, grant), clock: now, used })).toEqual({ outcome: "released" });
    expect(await registry.worker(namespace, grant.workerId)).toMatchObject({ clean: false, until: grant.until });
    expect(await quarantineOf(server)).toBe(0);

    // Its clock is right again: what it may have forgotten is waited for as always.
    clock.set(0);
    const { code, details } = await failure(registry.claim(ask()));
    expect(code).toBe("QUARANTINE");
    expect(details.retryAfterMs).toBeLessThanOrEqual(usual);
    const newcomer = await holders.run(url, options);
    expect(newcomer.begun.from).toBeGreaterThanOrEqual(await quarantineOf(server));
    await eventually(
      () => holder.ask("state"),
      ({ until, state }) => state === "held" && until > newcomer.begun.from,
    );
    await sleep(300);
    await holders.expectDistinct();
  });

  test("a quarantine that was begun by its clock is never shortened, and the refusal says why it is so long", async () => {
    await restartAhead();
    // A holder on the same machine agrees with it.
    const beside = new HolderProcess({ registry: url, namespace, window: limits.maxWindow }, clock);
    await expect(beside.ask("start")).rejects.toMatchObject({ code: "QUARANTINE" });
    await beside.kill();
    const until = await quarantineOf(server);
    expect(until - Date.now()).toBeGreaterThan(hour);
    for (const restart of [false, true]) {
      clock.set(0);
      if (restart) {
        await server.kill();
        await server.start();
      }
      const { code, message, details } = await failure(registry.claim(ask()));
      expect([code, details["until"]]).toEqual(["QUARANTINE", until]);
      const [, shows = ""] =
        /^Redis .*; nothing is granted or renewed until its clock shows (\S+)\. It shows /.exec(message) ?? [];
      expect(Date.parse(shows)).toBe(until);
      const longest = assumedLimits.maxWindow + 2 * assumedLimits.maxClockSkew;
      expect(message).toMatch(
        new RegExp(
          ` It shows \\S+, which is ${lengthText(details.retryAfterMs ?? 0)} earlier, and a quarantine lasts ${lengthText(longest)}: its clock was ahead when the quarantine began, or is behind now\\. Set it right if it is behind\\. Wait until \\S+; or, if `,
        ),
      );
      expect(message).not.toMatch(/\binit/);
    }
    expect((await failure(init(registry))).code).toBe("CONFIG_INVALID");
  });
});
