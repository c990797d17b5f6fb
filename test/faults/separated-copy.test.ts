import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Layout } from "../../src/id/layout.ts";
import { separateCopy } from "../../src/ops/separate.ts";
import { parseAddress } from "../../src/registries/index.ts";
import { lazyRegistry } from "../../src/registries/lazy.ts";
import type { ClaimKey, ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { eventually } from "../support/holder.ts";
import { type Maker, startMaker } from "../support/maker.ts";
import { dumpOfPostgres } from "../support/older-copy.ts";
import { postgresMissing, PostgresServer } from "../support/postgres.ts";
import { openSql } from "../support/sql.ts";

const namespace = "orders";
const layout = Layout.parse("westid");
/** A quarantine lasts 7 s, and holders renew every second; on a busy machine a request is under way for a second. */
const limits = { maxWindow: 3000, maxClockSkew: 2000 };

let server: PostgresServer;
let ends: (() => Promise<unknown>)[];
beforeEach(async () => {
  ends = [];
  server = await PostgresServer.start();
  ends.push(() => server.remove());
});
afterEach(async () => {
  for (const end of ends.toReversed()) await end();
});

const urlOf = (database: string): string => server.url().replace(/postgres$/, database);

async function opened(url: string): Promise<Registry> {
  const registry = await openSql(url, 30_000);
  ends.push(() => registry.close());
  return registry;
}

async function daemonOn(url: string, port = 0): Promise<DaemonProcess> {
  const daemon = await startDaemonProcess(url, port);
  ends.push(() => daemon.end("SIGKILL"));
  return daemon;
}

function connectTo(...daemons: readonly DaemonProcess[]): Registry {
  const list = daemons.map(({ url }) => url).join();
  const registry = lazyRegistry(parseAddress(list), { operationTimeout: 10_000 });
  ends.push(() => registry.close());
  return registry;
}

function claimRequest(): ClaimRequest {
  return {
    namespace,
    token: crypto.randomUUID().replaceAll("-", ""),
    pool: { first: 0, last: 9 },
    holder: { host: "a", ip: "192.0.2.7", pid: 12, instance: "" },
    clock: Date.now(),
    window: limits.maxWindow,
    layout: layout.fingerprint,
  };
}

interface Held extends ClaimKey {
  readonly receipt: string | undefined;
}

async function claimed(registry: Registry): Promise<Held> {
  const request = claimRequest();
  const { workerId, fence, receipt } = (await registry.claim(request)) as Grant;
  return { namespace, workerId, fence, token: request.token, receipt };
}

const renew = (registry: Registry, held: Held): ReturnType<Registry["renew"]> =>
  registry.renew({ ...held, clock: Date.now(), window: limits.maxWindow });

const eraOf = async (registry: Registry): Promise<string> => (await registry.describe(namespace))?.era ?? "";

function twiceIn(makers: readonly Maker[]): readonly bigint[] {
  const all = makers.flatMap(({ ids }) => ids);
  const seen = new Set<bigint>();
  return all.filter((id) => seen.size === seen.add(id).size);
}

async function allMade(makers: readonly Maker[], more: number): Promise<void> {
  for (const maker of makers) await maker.made(maker.ids.length + more);
}

describe.skipIf(postgresMissing !== undefined)(postgresMissing ?? "a copy of a PostgreSQL database", () => {
  test("is refused beside its original once it is separated, and was taken for the same registry before", async () => {
    await server.query("CREATE DATABASE production");
    const source = await openSql(urlOf("production"), 30_000);
    await source.init({ namespace, layout: layout.fingerprint, ...limits });
    await source.close();
    await server.query("CREATE DATABASE staging TEMPLATE production");
    const [production, staging] = [await opened(urlOf("production")), await opened(urlOf("staging"))];
    const [first, second] = [await daemonOn(urlOf("production")), await daemonOn(urlOf("staging"))];

    // One worker ID of each list, twice.
    const before = [await claimed(connectTo(first, second)), await claimed(connectTo(second, first))];
    expect(before.map(({ workerId }) => workerId)).toEqual([0, 0]);
    const [ofProduction, ofStaging] = before as [Held, Held];
    const era = await eraOf(staging);
    expect(await renew(connectTo(second), ofProduction)).toMatchObject({ outcome: "lost", reason: "forgotten" });
    expect(await eraOf(staging)).not.toBe(era);
    expect(await staging.release({ ...ofStaging, clock: Date.now() })).toEqual({ outcome: "released" });

    const { originalId, info } = await separateCopy(staging, { namespace, era: await eraOf(staging) }, "staging");
    expect(originalId).toBe((await production.describe(namespace))?.id);
    expect(info.id).not.toBe(originalId);
    // The second daemon knew the copy under its earlier id; the third one never did.
    const third = await daemonOn(urlOf("staging"));
    for (const list of [
      [first, second],
      [third, first],
    ] as const) {
      const registry = connectTo(...list);
      const refusal = await eventually(
        () => claimed(registry).catch((error: Error) => error.message),
        (answer) => typeof answer === "string" && answer.includes("are not daemons of one registry"),
      );
      expect(refusal).toContain(`The addresses ${list[0].url} and ${list[1].url} are not daemons of one registry`);
    }
    // What a holder of one of them proves is nothing to the other one.
    const eras = [await eraOf(production), await eraOf(staging)];
    const later = await claimed(connectTo(first));
    expect(await renew(connectTo(third), later)).toMatchObject({ outcome: "lost", reason: "forgotten" });
    const copied = await eventually(
      () => claimed(connectTo(third)).catch(() => undefined),
      (held) => held !== undefined,
    );
    expect(await renew(connectTo(first), copied as Held)).toMatchObject({ outcome: "lost", reason: "forgotten" });
    expect([await eraOf(production), await eraOf(staging)]).toEqual(eras);
    expect(await renew(connectTo(first), later)).toMatchObject({ outcome: "renewed" });
  });

  test("that is no copy: separated twice below live holders, it costs time, and no ID is made twice", async () => {
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: layout.fingerprint, ...limits });
    const [lasting, restarted] = [await daemonOn(server.url()), await daemonOn(server.url())];
    const options = { namespace, layout: "westid", window: limits.maxWindow, pool: "0-9", onLost: "switch" } as const;
    const start = (url: string): Promise<Maker> => startMaker({ ...options, registry: url, claimTimeout: 30_000 });
    const makers = [await start(server.url()), await start(lasting.url), await start(restarted.url)];
    const events = makers.map((maker) => {
      const heard: string[] = [];
      for (const name of ["renewed", "lost", "switched"] as const) {
        maker.snowflake.lease.on(name, () => void heard.push(name));
      }
      return heard;
    });
    await allMade(makers, 200);
    // An operator who asks the wrong store is refused: its holders' windows are open.
    const era = await eraOf(registry);
    await expect(separateCopy(registry, { namespace, era }, "here")).rejects.toMatchObject({ code: "WORKER_ID_HELD" });
    expect(await eraOf(registry)).toBe(era);

    const first = await registry.separate?.({ namespace, era });
    await expect(registry.separate?.({ namespace, era })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    const second = await registry.separate?.({ namespace, era: first?.era ?? "" });
    await restarted.end("SIGKILL");
    await daemonOn(server.url(), restarted.port);
    for (const heard of events) heard.splice(0);
    makers.push(await start(server.url()), await start(lasting.url));
    // A daemon that never knew the earlier key takes it for a holder of another registry: it claims anew, after the quarantine.
    await eventually(
      async () => events[2] ?? [],
      (names) => names.includes("switched"),
    );
    expect(events[2]?.[0]).toBe("lost");
    // The others renew, unless a claimer is faster: their windows have passed.
    for (const heard of events.slice(0, 2)) {
      await eventually(
        async () => heard,
        (names) => names.some((name) => name === "renewed" || name === "switched"),
      );
    }
    await allMade(makers, 500);
    await Promise.all(makers.map((maker) => maker.stop()));
    expect(twiceIn(makers)).toEqual([]);
    expect(await eraOf(registry)).toBe(second?.era);
  });

  test("that takes the place of its original and is separated: no forgotten worker ID is granted while its window is open", async () => {
    const registry = await opened(server.url());
    await registry.init({ namespace, layout: layout.fingerprint, ...limits });
    const daemon = await daemonOn(server.url());
    const options = { namespace, layout: "westid", window: limits.maxWindow, pool: "0-2", onLost: "switch" } as const;
    const older = await startMaker({ ...options, registry: daemon.url });
    const putBack = await dumpOfPostgres(server, namespace);
    const forgotten = await startMaker({ ...options, registry: daemon.url });
    await allMade([older, forgotten], 200);
    await daemon.end("SIGKILL");
    await putBack();
    await registry.separate?.({ namespace, era: await eraOf(registry) });
    const newcomer = startMaker({ ...options, registry: server.url(), claimTimeout: 30_000 });
    await forgotten.made(forgotten.ids.length + 300);
    await daemonOn(server.url(), daemon.port);
    const makers = [older, forgotten, await newcomer];
    await allMade(makers, 500);
    await Promise.all(makers.map((maker) => maker.stop()));
    expect(twiceIn(makers)).toEqual([]);
  });
});
