import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expectNoDuplicates, restartMatrix, startHolder } from "snowlease/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "../support/cli.ts";
import { root } from "../support/markdown.ts";
import { redisMissing, RedisServer } from "../support/redis.ts";
import { isAlive } from "../support/servers.ts";

const minutes = 60_000;

/**
 * A generator in a module. `head`: before it; `worker`, `last`: expressions; `end`: what `close` does; `now`: its tick. By default ticks are
 * hours, so that any two lives share one, however busy the machine is.
 */
function naive(
  sandbox: Sandbox,
  { head = "", worker = "7", last = "0", end = "", now = "Math.max(Math.floor(Date.now() / 3_600_000), last)" },
): string {
  const file = join(sandbox.work, "ids.mjs");
  const text = `${head}
export default async function start(options) {
  const worker = BigInt(${worker});
  let last = ${last};
  let sequence = 0;
  return {
    next() {
      const now = ${now};
      sequence = now === last ? sequence + 1 : 0;
      last = now;
      return (BigInt(now) << 32n) | (worker << 20n) | BigInt(sequence);
    },
    async close() { ${end} },
  };
}`;
  writeFileSync(file, text);
  return file;
}

/** The titles of the cases that failed by duplicates. */
async function failed(options: Parameters<typeof restartMatrix>[0]): Promise<string[]> {
  const found = await restartMatrix({ life: 200, pause: 200, ...options }).catch((error: unknown) => String(error));
  if (typeof found !== "string") return [];
  const all = Array.from(
    found.matchAll(/^- (.*?): (?:\d+ of \d+ IDs were made more than once|.*)/gm),
    ([line, title = ""]) => (line.includes("made more than once") ? title : line),
  );
  expect(all.length, found).toBeGreaterThan(0);
  return all;
}

const titles = {
  restarted: "the store restarted while a process makes IDs",
  between: "killed with -9, and the store restarted before the next start",
  closed: "stopped in the usual way, and started with the clock set back",
  killed: "killed with -9 while IDs are made, and started with the clock set back",
  short: "short lives, one after the other, the clock going back and forth",
  running: "the clock set back while IDs are made",
  atOnce: "two processes at once",
  stopped: "stopped while IDs are made, and resumed beside another process",
};

describe("a restart matrix", { timeout: 5 * minutes }, () => {
  test("finds a generator that remembers only what it made before it was closed", async () => {
    const sandbox = new Sandbox();
    const file = JSON.stringify(join(sandbox.work, "last"));
    const module = naive(sandbox, {
      head: 'import { existsSync, readFileSync, writeFileSync } from "node:fs";',
      last: `existsSync(${file}) ? Number(readFileSync(${file}, "utf8")) + 1 : 0`,
      end: `writeFileSync(${file}, String(last));`,
    });
    const { closed: _, running: __, ...others } = titles;
    expect(await failed({ module })).toEqual([others.killed, others.short, others.atOnce, others.stopped]);
  });

  test("finds a generator that follows a clock which goes back", async () => {
    const sandbox = new Sandbox();
    const file = JSON.stringify(join(sandbox.work, "numbers"));
    const module = naive(sandbox, {
      head: 'import { appendFileSync, readFileSync } from "node:fs";',
      // Its own for each process.
      worker: `(appendFileSync(${file}, "x"), readFileSync(${file}).length)`,
      now: "Math.floor(Date.now() / 250)",
    });
    expect(await failed({ module, life: 1000 })).toEqual([titles.running]);
  });

  test.skipIf(redisMissing !== undefined)("finds a store that hands numbers out again after a restart", async () => {
    const sandbox = new Sandbox();
    const redis = await RedisServer.start([]);
    onTestFinished(() => redis.remove());
    const restart = async (): Promise<void> => {
      await redis.kill();
      await redis.start();
    };
    const driver = pathToFileURL(join(root, "node_modules/ioredis/built/index.js")).href;
    const module = naive(sandbox, {
      head: `import { Redis } from ${JSON.stringify(driver)};`,
      worker: "await new Redis(options).incr('numbers')",
    });
    const options = { port: redis.port };
    expect(await failed({ module, options })).toEqual([]);
    await restart();
    expect(await failed({ module, options, restart })).toEqual([titles.restarted]);
  });

  test.skipIf(redisMissing !== undefined)(
    "passes leased IDs, whose store is killed with -9 and started again",
    async () => {
      const redis = await RedisServer.start();
      onTestFinished(() => redis.remove());
      let restarts = 0;
      const restart = async (): Promise<void> => {
        restarts++;
        await redis.kill();
        await redis.start();
      };
      const limits = { maxWindow: "2s", maxClockSkew: "5s", claimTimeout: "60s" };
      const { cases, ids } = await restartMatrix({ registry: redis.url("?maxLag=0"), options: limits, restart });
      expect(restarts).toBe(2);
      expect(cases.map(({ title }) => title)).toEqual(Object.values(titles));
      expect(cases.flatMap(({ made }) => made).reduce((sum, each) => sum + each, 0)).toBe(ids);
      for (const { title, made, recovered } of cases) {
        expect(made[0], title).toBeGreaterThan(0);
        // The server may have forgotten windows: nothing is granted until they have passed. Then a process whose clock is behind makes IDs, too.
        if (title === titles.restarted || title === titles.between) {
          expect(recovered).toBeGreaterThan(5000);
          expect(made.at(-1), title).toBeGreaterThan(0);
        } else expect(recovered).toBeUndefined();
      }
    },
  );

  test("fails where nothing was made, and says why", async () => {
    const module = naive(new Sandbox(), { head: 'throw Object.assign(new Error("no such luck"), { code: "LUCK" });' });
    const quick = { module, life: 50, pause: 50 };
    await expect(restartMatrix(quick)).rejects.toThrow(
      "6 of 6 cases of the restart matrix failed.\n- stopped in the usual way, and started with the clock set back: the program failed with LUCK: no such luck; where this is a refusal, name it in `refusals`\n- killed",
    );
    await expect(restartMatrix({ ...quick, refusals: ["LUCK"] })).rejects.toThrow(
      "6 of 6 cases of the restart matrix failed.\n- stopped in the usual way, and started with the clock set back: no ID was made: no such luck\n- killed",
    );
  });

  test("fails where a program ends by itself, and tells the duplicates of the others", async () => {
    const module = naive(new Sandbox(), {
      end: 'process.stderr.write("too bad\\n", () => process.exit(7)); await new Promise(() => {});',
    });
    const error: unknown = await restartMatrix({ module, life: 50, pause: 50 }).catch((reason: unknown) => reason);
    expect(String(error)).toMatch(
      /started with the clock set back: The holder's process ended with code 7: too bad\n- killed .* made more than once/,
    );
  });

  test.each([
    [{}, /Expected either `module` or `registry`, got neither/],
    [{ module: "./a.mjs", registry: "sqlite:./b.db" }, /got both/],
    [{ module: "./a.mjs", restrat: async () => undefined }, /options of `restartMatrix` \(.*\), got `restrat`/],
    [
      { module: "./a.mjs", options: { host: () => "a" } },
      /`options` that another process can get, without functions; /,
    ],
    [{ module: "./a.mjs", life: Number.NaN }, /`life` to be a time such as .*: from 1 to 3600000 ms, got `NaN`/],
    [{ registry: "memory:" }, /a registry that several processes share, got `memory:`/],
    [{ registry: "reddis://h" }, /registry URL/],
    [{ registry: "sqlite:./x.db", options: { windw: 1 } }, /windw/],
  ])("refuses %j", async (options, message) => {
    const refused = expect.objectContaining({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(message) as string,
    });
    await expect(restartMatrix(options as { module: string })).rejects.toEqual(refused);
    for (const file of ["b.db", "x.db"]) expect(existsSync(file)).toBe(false);
  });
});

describe("a holder", { timeout: minutes }, () => {
  test("leaves all IDs that it made, however it ends, and nothing else", async () => {
    const sandbox = new Sandbox();
    const module = naive(sandbox, {});
    const holder = await startHolder({ module });
    expect(await holder.make(1001)).toMatchObject({ made: 1001, refusals: {} });
    expect(holder.ids).toHaveLength(1001);
    const living = holder.live(10 * minutes);
    while (holder.ids.length < 2000) await sleep(5);
    await holder.kill();
    await expect(living).rejects.toThrow("The holder's process ended by SIGKILL");
    await expect(holder.make(1)).rejects.toThrow("has ended");
    expect(holder.ids.length).toBeGreaterThanOrEqual(2000);
    expectNoDuplicates(holder.ids);
  });

  test("goes by the clock that it is given, and goes on when it is resumed", async () => {
    const sandbox = new Sandbox();
    const module = naive(sandbox, { now: "new Date().getTime()" });
    const then = Date.UTC(2024, 1, 29);
    const holder = await startHolder({ module, clock: then });
    const { began } = await holder.make(1);
    expect(began - then).toBeLessThan(20_000);
    const time = (id: string | undefined): number => Number(BigInt(id ?? "") >> 32n);
    expect(time(holder.ids[0])).toBeGreaterThanOrEqual(then);
    expect(time(holder.ids[0]) - then).toBeLessThan(20_000);
    await holder.setClock(then + 3_600_000);
    holder.stop();
    const made = holder.make(1);
    holder.resume();
    await made;
    expect(time(holder.ids[1])).toBeGreaterThanOrEqual(then + 3_600_000);
    await holder.close();
  });

  test("says what its program failed with", async () => {
    const sandbox = new Sandbox();
    const refuse = naive(sandbox, {
      now: '(() => { throw Object.assign(new Error("not now"), { code: "BUSY" }); })()',
    });
    const holder = await startHolder({ module: refuse });
    const { made, refusals, reason } = await holder.live(100);
    expect([made, Object.keys(refusals), reason]).toEqual([0, ["BUSY"], "not now"]);
    await holder.close();
    const bad = join(sandbox.work, "bad.mjs");
    for (const [text, message] of [
      ["export const start = 1;", /Expected the default export of file:.*bad\.mjs to be a function/],
      ["export default () => ({});", /to return an object with `next`/],
      ["process.exit(3);", /^The holder's process ended with code 3$/],
      ['import "no-such-package";', /no-such-package/],
    ] as const) {
      writeFileSync(bad, text);
      await expect(startHolder({ module: bad })).rejects.toThrow(message);
    }
    writeFileSync(bad, "export default () => ({ next: () => 2 ** 60 });");
    const rounding = await startHolder({ module: bad });
    expect((await rounding.live(50)).reason).toMatch(/JavaScript rounds larger numbers/);
    await rounding.kill();
  });

  test("ends with the process that started it, also when it is stopped, and leaves no file", async () => {
    const sandbox = new Sandbox();
    const pidFile = join(sandbox.work, "pid");
    const module = naive(sandbox, {
      head: `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(pidFile)}, String(process.pid));`,
    });
    const script = `import { startHolder } from "snowlease/testing";
const holder = await startHolder({ module: ${JSON.stringify(module)} });
await holder.make(1);
holder.stop();
process.exit(5);`;
    const { status } = spawnSync(process.execPath, ["--input-type=module", "--eval", script], {
      cwd: root,
      env: { ...process.env, TMPDIR: join(sandbox.folder, "tmp") },
    });
    expect(status).toBe(5);
    while (isAlive(Number(readFileSync(pidFile, "utf8")))) await sleep(5);
    expect(readdirSync(join(sandbox.folder, "tmp"))).toEqual([]);
  });
});
