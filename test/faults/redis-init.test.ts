import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { snowlease } from "../../src/snowlease.ts";
import { defaultLayout } from "../../src/id/layout.ts";
import type { SnowleaseError } from "../../src/id/errors.ts";
import { type Grant, type Registry } from "../../src/rule/registry.ts";
import { assumedLimits } from "../../src/rule/limits.ts";
import { claimRequest, granted } from "../support/claims.ts";
import { Sandbox } from "../support/cli.ts";
import { Holders, namespace } from "../support/failover.ts";
import { failure } from "../support/failures.ts";
import { eventually } from "../support/holder.ts";
import { openRedis, redisMissing, RedisServer } from "../support/redis.ts";

const layout = defaultLayout.fingerprint;
/** Longer than a test: a holder whose server forgot it makes IDs until the end. */
const window = 60_000;
const limits = { maxWindow: window, maxClockSkew: 2000 };

describe.skipIf(redisMissing !== undefined)(redisMissing ?? "`init` on a Redis that may have forgotten", () => {
  let server: RedisServer;
  let registry: Registry;
  let holders: Holders;
  let sandbox: Sandbox;
  let url: string;

  beforeEach(async () => {
    sandbox = new Sandbox();
    holders = new Holders();
    server = await RedisServer.start([]);
    url = server.url("?maxLag=0");
    registry = await openRedis(url);
  });
  afterEach(async () => {
    await holders.kill();
    await registry.close();
    await server.remove();
  });

  const make = (): Promise<unknown> => registry.init({ namespace, layout, ...limits, new: true });

  function init(...flags: string[]): ReturnType<Sandbox["run"]> {
    return sandbox.run(["init", "--registry", url, "--namespace", namespace, "--layout", layout, ...flags]);
  }

  async function serve(...flags: string[]): Promise<string> {
    const layoutFlags = ["--layout", layout, "--listen", "127.0.0.1:0", "--json"];
    const daemon = sandbox.start(["daemon", "--registry", url, ...layoutFlags, ...flags]);
    return (JSON.parse(await daemon.line()) as { url: string }).url;
  }

  async function put(daemon: string, body: object, token = ""): Promise<{ status: number; body: object }> {
    const headers = { "content-type": "application/json", ...(token !== "" && { authorization: `Bearer ${token}` }) };
    const response = await fetch(`${daemon}/v1/${namespace}`, { method: "PUT", headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as object };
  }

  /** IDs of a holder whose server forgets it, and of another one that comes after `cure`; what the second was refused with. */
  async function idsAcross(forget: () => Promise<unknown>, cure: () => Promise<unknown>): Promise<string | undefined> {
    await make();
    const options = { window, pool: "0-0" };
    const { holder } = await holders.run(url, options);
    await eventually(
      async () => holder.ids().length,
      (count) => count > 1000,
    );
    await forget();
    await cure();
    const second = holders.add(url, options);
    const refused = await second.ask("start").then(
      () => undefined,
      ({ code }: { code: string }) => code,
    );
    const before = holder.ids().length;
    if (refused === undefined) await second.ask("run");
    await eventually(
      async () => holder.ids().length,
      (count) => count > before + 10_000,
    );
    await holders.expectDistinct();
    return refused;
  }

  describe("no ID twice", () => {
    const restart = async (): Promise<void> => {
      await server.kill();
      await server.start();
    };

    test("after a restart that lost everything, a claim, and `init`", async () => {
      const refused = await idsAcross(restart, async () => {
        expect((await failure(registry.claim(claimRequest({ window })))).code).toBe("QUARANTINE");
        expect(await init()).toMatchObject({ code: 0 });
        expect(await init("--new")).toMatchObject({ code: 2 });
      });
      expect(refused).toBe("QUARANTINE");
    });

    test("after FLUSHALL, and `PUT` of the namespace", async () => {
      const daemon = await serve();
      const refused = await idsAcross(
        () => server.client().flushall(),
        async () => {
          expect(await put(daemon, {})).toMatchObject({ status: 200 });
          expect(await put(daemon, { new: true })).toMatchObject({ status: 400 });
        },
      );
      expect(refused).toBe("QUARANTINE");
    });

    test("after FLUSHALL, and `init` before anything was claimed", async () => {
      const refused = await idsAcross(
        () => server.client().flushall(),
        async () => expect(await init()).toMatchObject({ code: 0 }),
      );
      expect(refused).toBe("QUARANTINE");
    });
  });
  describe("the word that a namespace is new", () => {
    const claim = (): Promise<Grant> => granted(registry, claimRequest({ window }));

    test("makes a namespace that grants at once, and is refused once something in it was used", async () => {
      expect(await init("--new")).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(" is ready in ") as string,
      });
      // A pipeline that says it again, or one whose answer was lost.
      expect(await init("--new")).toMatchObject({ code: 0 });
      const before = await claim();
      const refused = await init("--new");
      expect(refused).toMatchObject({ code: 2, stdout: "" });
      expect(refused.stderr).toMatch(
        /^snowlease: CONFIG_INVALID: Namespace `orders` is not new: Redis 127\.0\.0\.1:\d+ holds its key `workerId\/orders:[^`]+`; nothing was changed; ask again without `new` \(of the command line, `--new`\)\.\n$/,
      );
      expect(await init()).toMatchObject({ code: 0, stderr: "" });
      expect((await claim()).workerId).not.toBe(before.workerId);
    });

    test("without it a namespace is made in quarantine, which every answer says and no word ends", async () => {
      const made = await init("--json");
      const [{ quarantineUntil }] = JSON.parse(made.stdout) as [{ quarantineUntil: number }];
      expect(quarantineUntil - Date.now()).toBeGreaterThan(assumedLimits.maxWindow);
      const iso = new Date(quarantineUntil).toISOString();
      expect((await init()).stdout).toContain(`is in quarantine until ${iso} in `);
      const refused = await init("--new");
      expect(refused).toMatchObject({ code: 2 });
      expect(refused.stderr).toContain(`notes a quarantine of it, until ${iso}; `);
      expect(refused.stderr).toContain(
        "; run `snowlease quarantine`, which shows how long it lasts and what ends it, or ask ",
      );
      const { code, message } = await failure(claim());
      expect([code, message]).toEqual(["QUARANTINE", expect.not.stringMatching(/\binit/)]);
      expect(message).toContain(
        `was restarted, promoted or flushed, and may have forgotten windows of namespace \`${namespace}\`; `,
      );
      expect(await registry.describe(namespace)).toMatchObject({ quarantineUntil });
    });

    test("nor does it end one that a claim or a renewal began, of which nothing else is known", async () => {
      expect((await failure(claim())).code).toBe("QUARANTINE");
      const { code, message } = await failure(make());
      expect([code, message]).toEqual(["CONFIG_INVALID", expect.stringContaining("notes a quarantine")]);
      const workers = await sandbox.run(["workers", "--registry", url, "--namespace", namespace]);
      expect(workers).toMatchObject({ code: 5, stderr: expect.not.stringMatching(/\binit/) as string });
    });

    test("comes too late after a first claim, whose refusal names the command that goes on instead", async () => {
      const { code, message, details } = await failure(claim());
      expect([code, details]).toEqual(["QUARANTINE", expect.objectContaining({ namespace, era: expect.any(String) })]);
      const { until, era } = details as { until?: number; era?: string };
      const end = `snowlease quarantine end --registry URL --namespace ${namespace} --era ${era} --i-know`;
      expect(message).toMatch(
        /^Redis 127\.0\.0\.1:\d+ holds nothing of namespace `orders`: it is new, or Redis has forgotten it and windows that it granted; nothing is granted or renewed for 10 min(?: \d+ s)?, until such windows have passed\. /,
      );
      const { stdout: shown } = await sandbox.run(["quarantine", "--registry", url, namespace]);
      expect(shown).toContain(`: ${end}\n`);
      const bySource = await sandbox.run(["quarantine", namespace], { env: { SNOWLEASE_REGISTRY: url } });
      expect(bySource.stdout).toContain(`: ${end.replace("--registry URL ", "")}\n`);
      const iso = new Date(until ?? 0).toISOString();
      expect(
        message.endsWith(
          ` Wait until ${iso}; or, if each process that got a worker ID of this namespace here before has stopped, or if none ever did, run \`${end}\`.`,
        ),
      ).toBe(true);

      expect(await sandbox.run(end.replace("URL", url).split(" ").slice(1))).toMatchObject({ code: 0, stderr: "" });
      const { stdout: after } = await sandbox.run(["quarantine", "--registry", url, namespace]);
      expect(after).toMatch(
        /An operator ended the quarantine that was to last until .*: the store grants again in \d+ s, at \S+\.\n$/,
      );
      const ended = await failure(claim());
      expect(ended.message).toMatch(/, until such windows have passed\. Wait until \S+\.$/);
      const made = await init();
      expect(made.stdout).toMatch(/ is in quarantine until [^]* Claims wait or fail\.\n$/);
      expect(ended.details.retryAfterMs).toBeLessThanOrEqual(2 * assumedLimits.maxClockSkew + 1);
      // The claim that comes behind it makes the namespace, in the layout of its program.
      const claims = ["--registry", url, "--namespace", namespace, "--layout", layout, "--claim-timeout", "60s"];
      const args = ["id", "-n", "1", ...claims];
      expect(await sandbox.run(args)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\n$/) as string });
      expect(await registry.describe(namespace)).toMatchObject({ layout, era });
    });

    test("can be given by a program, once, for each namespace by itself", async () => {
      const options = { registry: url, namespace, layout, ...limits };
      const info = await snowlease.init({ ...options, new: true });
      expect(info).toMatchObject({ layout, ...limits });
      expect(info).not.toHaveProperty("quarantineUntil");
      expect(await snowlease.init({ ...options, new: true })).toEqual(info);
      const ids = await snowlease({ ...options, window: 1000 });
      expect(ids.next()).toBeTypeOf("bigint");
      await ids.close();
      expect(await failure(snowlease.init({ ...options, new: true }))).toMatchObject({ code: "CONFIG_INVALID" });
      expect(await snowlease.init(options)).toEqual(info);
      expect(await failure(snowlease({ ...options, namespace: "users" }))).toMatchObject({ code: "QUARANTINE" });
    });

    test("is given for several namespaces at once", async () => {
      const made = await sandbox.run(["init", "orders", "users", "--new", "--registry", url]);
      expect(made).toMatchObject({ code: 0, stderr: "" });
      expect(made.stdout.match(/^Namespace \w+ is ready/gm)).toEqual([
        "Namespace orders is ready",
        "Namespace users is ready",
      ]);
      const shown = await sandbox.run(["quarantine", "orders", "users", "--registry", url]);
      expect(shown.stdout.match(/There was no quarantine\./g)).toHaveLength(2);
      const twice = await sandbox.run(["init", "orders", "--namespace", "users", "--new", "--registry", url]);
      expect(twice).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("either as arguments or with") as string,
      });
      const misspelt = await sandbox.run(["init", "orders", "Users", "--new", "--registry", url]);
      expect(misspelt).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("`Users`") as string });
    });

    test("is refused where any one key of the namespace stands, and where they are those of Java processes it is not", async () => {
      await registry.init({ namespace, layout, ...limits, new: true });
      const taken = await claim();
      const request = claimRequest({ window: 1, pool: { first: 8, last: 9 } });
      const { until } = await granted(registry, request);
      await eventually(
        () => registry.ping(),
        ({ clock }) => clock > until,
      );
      await granted(registry, { ...claimRequest({ window: 1000 }), workerId: 8, pool: request.pool });
      await registry.pin(namespace, 700, "kept", { ip: "10.0.0.9", usedUntil: 0 });
      const client = server.client();
      await client.set(`workerId/${namespace}:use:3`, "811x10.0.0.7xalpha");
      expect(await registry.claim(claimRequest({ workerId: 3, window: 1000 }))).toMatchObject({ outcome: "foreign" });
      const keys = (await client.keys(`workerId/${namespace}:*`)).toSorted();
      const kinds = [
        "foreign",
        "history",
        "host",
        "meta",
        "owners",
        "pid",
        "prunable",
        "resting",
        "token",
        "unused",
        "use",
        "window",
      ];
      expect([...new Set(keys.map((key) => key.split(":")[1]))]).toEqual(kinds);
      const values = new Map(await Promise.all(keys.map(async (key) => [key, await client.dumpBuffer(key)] as const)));

      const told: Record<string, string> = {};
      for (const key of keys) {
        await client.flushall();
        await client.restore(key, 0, values.get(key) ?? "");
        const answer = await make().catch((error: SnowleaseError) => error);
        told[key] = "code" in (answer as object) ? (answer as SnowleaseError).code : "made";
      }
      const used = (key: string): boolean => key.split(":")[1] === "use";
      expect(told).toEqual(Object.fromEntries(keys.map((key) => [key, used(key) ? "made" : "CONFIG_INVALID"])));

      // What westid itself writes.
      await client.flushall();
      await client.set(`workerId/${namespace}:use:0`, "811x10.0.0.7xalpha");
      await client.rpush(`workerId/${namespace}:pid:10.0.0.7`, "811x0");
      await client.set(`workerId/${namespace}:lok:10.0.0.7`, "x");
      await make();
      expect(await claim()).toMatchObject({ outcome: "granted" });
      expect(taken.workerId).toBe(0);
    });

    test("finds one key among many", async () => {
      const client = server.client();
      const others = Array.from({ length: 30_000 }, (_, i) => [`workerId/other:window:${i}`, "x"]);
      await client.mset(...others.flat());
      await client.hset(`workerId/${namespace}:window:4095`, "record", "x");
      expect((await failure(make())).message).toContain(`\`workerId/${namespace}:window:4095\``);
      await client.del(`workerId/${namespace}:window:4095`);
      await make();
    });

    test("passes through a daemon, from a token of the role `admin` alone", async () => {
      const tokens = sandbox.tokens("adm1n admin", "w0rker worker", "r3ader read");
      const daemon = await serve("--tokens", tokens);
      for (const token of ["w0rker", "r3ader"])
        expect(await put(daemon, { new: true }, token)).toMatchObject({ status: 403 });
      expect(await registry.describe(namespace)).toBeUndefined();
      const word = ["init", "--registry", daemon, "--namespace", namespace, "--new"];
      const said = (): ReturnType<Sandbox["run"]> => sandbox.run(word, { env: { SNOWLEASE_TOKEN: "adm1n" } });
      for (let i = 0; i < 2; i++) expect(await said()).toMatchObject({ code: 0, stderr: "" });
      await claim();
      expect(await said()).toMatchObject({ code: 2, stdout: "" });
      expect(await put(daemon, { new: "yes" }, "adm1n")).toMatchObject({ status: 400 });
      await server.client().flushall();
      expect(await put(daemon, { new: false }, "adm1n")).toMatchObject({
        status: 200,
        body: { quarantineUntil: expect.any(Number) as number },
      });
    });
  });
});
