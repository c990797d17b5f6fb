import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { layouts } from "../../src/id/layout.ts";
import { systemClock } from "../../src/clock.ts";
import { type GuardName, guardNamesIn, guardText } from "../../src/registries/host-guard/guard-name.ts";
import { type GuardedRegistry, guardedRegistry } from "../../src/registries/host-guard/guarded.ts";
import { holderElsewhere, HostGuard } from "../../src/registries/host-guard/host-guard.ts";
import { memoryRegistry } from "../../src/registries/memory/registry.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import type { ClaimRequest, Grant, Registry } from "../../src/rule/registry.ts";

/** Two runs of this file at the same time must not see each other. */
const namespace = `t${process.pid}_${Date.now().toString(36)}`;
const [fileA, fileB] = ["a".repeat(16), "b".repeat(16)];
const isLinux = process.platform === "linux";

function named(name: Partial<GuardName> = {}): GuardName {
  return {
    namespace,
    workerId: 7,
    file: fileA,
    uid: 1000,
    pid: 4711,
    since: 1_795_838_448_750,
    nonce: "0a1b2c",
    ...name,
  };
}

const lineOf = (path: string): string => `000000004c496dbc: 00000002 00000000 00010000 0001 01 3577172 ${path}`;
const namesIn = (...lines: readonly string[]): GuardName[] =>
  guardNamesIn(`Num       RefCount Protocol Flags    Type St Inode Path\n${lines.join("\n")}\n`, namespace, 7);

describe("the name of a mark", () => {
  test("the longest one fits a socket's name", () => {
    const longest = {
      namespace: "n".repeat(32),
      workerId: 2 ** 32 - 1,
      uid: 2 ** 32 - 1,
      pid: 2 ** 22,
      since: Date.UTC(2058, 0),
    };
    expect(guardText(named(longest)).length).toBeLessThanOrEqual(107);
  });

  test("is read as it was written, also where it is filled up", () => {
    expect(namesIn(lineOf(`@${guardText(named())}`))).toEqual([named()]);
    expect(namesIn(lineOf(`@${guardText(named())}@@@@`))).toEqual([named()]);
  });

  test("of another namespace or worker ID is not read", () => {
    const others = [{ namespace: "other" }, { namespace: `${namespace}x` }, { workerId: 77 }, { workerId: 0 }];
    expect(namesIn(...others.map((other) => lineOf(`@${guardText(named(other))}`)))).toEqual([]);
  });

  const text = guardText(named());
  test.each<[string, string]>([
    ["is no abstract one", lineOf(`/${text}`)],
    ["has something before it", lineOf(`@x${text}`)],
    ["has something behind it", lineOf(`@${text}/x`)],
    ["has a longer nonce", lineOf(`@${text}0`)],
    ["lacks a part", lineOf(`@${text.replace(/\/4711/, "")}`)],
    ["has an empty part", lineOf(`@${text.replace("4711", "")}`)],
    ["has a sign in a number", lineOf(`@${text.replace("4711", "-4711")}`)],
    ["has a number without end", lineOf(`@${text.replace("4711", "9".repeat(40))}`)],
    ["has a file in capitals", lineOf(`@${text.replace(fileA, fileA.toUpperCase())}`)],
    ["has bytes that are no text", lineOf(`@${text.replace("4711", "47\xff\xfe11")}`)],
    ["is cut off by a line break", lineOf(`@${text.replace("4711", "47\n11")}`)],
    ["is nothing", lineOf("")],
  ])("a look-alike that %s counts as none, and hides no other", (_, line) => {
    expect(namesIn(line)).toEqual([]);
    const holder = named({ file: fileB });
    expect(namesIn(line, lineOf(`@${guardText(holder)}`), line)).toEqual([holder]);
  });
});

describe.runIf(isLinux)("a mark", () => {
  let made: { free(): void }[];
  beforeEach(() => (made = []));
  afterEach(() => {
    for (const one of made) one.free();
  });

  async function hold(name: GuardName): Promise<HostGuard> {
    const guard = await HostGuard.hold(name);
    if (guard === undefined) throw new Error("this system has no abstract sockets");
    made.push(guard);
    return guard;
  }

  test("is seen from another file, not from its own, and no longer once it is taken away", async () => {
    const guard = await hold(named());
    expect(await holderElsewhere(named({ file: fileB }))).toEqual(named());
    expect(await guard.other()).toBeUndefined();
    guard.free();
    guard.free();
    expect(await holderElsewhere(named({ file: fileB }))).toBeUndefined();
  });

  test("is seen behind whatever other programs bind", async () => {
    const shapes = [`snowlease/${namespace}/7/`, `snowlease/${namespace}/7/\n\xff\x00`, `${guardText(named())}/x`];
    for (const shape of shapes) {
      const server = createServer();
      await new Promise<Server>((resolve) => server.listen(`\0${shape}`, () => resolve(server)));
      made.push({ free: () => server.close() });
    }
    expect(await holderElsewhere(named({ file: fileB }))).toBeUndefined();
    await hold(named());
    expect(await holderElsewhere(named({ file: fileB }))).toEqual(named());
  });

  test("of two that are set at once, at least one sees the other", async () => {
    for (let i = 0; i < 50; i++) {
      const guards = await Promise.all([hold(named()), hold(named({ file: fileB }))]);
      const seen = await Promise.all(guards.map((guard) => guard.other()));
      expect(seen.filter((other) => other !== undefined).length).toBeGreaterThan(0);
      for (const guard of guards) guard.free();
    }
  });
});

describe.runIf(isLinux)("a registry with marks", () => {
  let folder: string;
  let open: GuardedRegistry[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "snowlease-"));
    open = [];
  });
  afterEach(async () => {
    for (const registry of open) await registry.close();
    rmSync(folder, { recursive: true });
  });

  async function fileOf(name: string): Promise<GuardedRegistry> {
    const registry = await sqliteRegistry({ path: join(folder, `${name}.db`), operationTimeout: 60_000 });
    const guarded = guardedRegistry(registry, systemClock);
    open.push(guarded);
    return guarded;
  }

  const holder = { host: "vm", ip: "192.0.2.2", pid: process.pid, instance: "" };
  let tokens = 0;
  const request = (rest: Partial<ClaimRequest> = {}): ClaimRequest => ({
    namespace,
    token: (++tokens).toString(16).padStart(32, "0"),
    workerId: 7,
    pool: { first: 0, last: 1023 },
    holder,
    clock: Date.now(),
    window: 60_000,
    layout: layouts.westid.fingerprint,
    ...rest,
  });

  async function granted(
    registry: Registry,
    asked: ClaimRequest = request(),
  ): Promise<Grant & { readonly token: string }> {
    const answer = await registry.claim(asked);
    if (answer.outcome !== "granted") throw new Error(`refused: ${JSON.stringify(answer)}`);
    return { ...answer, token: asked.token };
  }

  const giveBack = (registry: Registry, { token, workerId, fence, from }: Grant & { readonly token: string }) =>
    registry.release({ namespace, workerId, fence, token, clock: Date.now(), used: { until: from } });

  test("refuses what another file has granted, until that is given back, and its own file keeps nothing of it", async () => {
    const [a, b] = [await fileOf("a"), await fileOf("b")];
    const first = await granted(a);
    for (let i = 0; i < 2; i++) {
      expect(await b.claim(request())).toMatchObject({
        outcome: "held",
        live: true,
        workerId: 7,
        holder: { pid: process.pid },
        elsewhere: { uid: process.getuid?.(), file: join(folder, "b.db") },
      });
      expect(await b.worker(namespace, 7)).toMatchObject({ state: "free" });
    }
    // The second look came before a claim.
    expect(await b.worker(namespace, 7)).toMatchObject({ fence: 1 });
    await giveBack(a, first);
    await granted(b);
    expect(await a.claim(request())).toMatchObject({ outcome: "held", elsewhere: { file: join(folder, "a.db") } });
  });

  test("leaves other worker IDs and namespaces alone", async () => {
    const [a, b] = [await fileOf("a"), await fileOf("b")];
    await granted(a);
    await granted(b, request({ workerId: 8 }));
    await granted(b, request({ namespace: `${namespace}x` }));
  });

  test("takes the mark away where a claim is over: lost, let alone, closed", async () => {
    const [a, b] = [await fileOf("a"), await fileOf("b")];
    const seen = async (): Promise<boolean> =>
      (await holderElsewhere({ namespace, workerId: 7, file: fileA })) !== undefined;
    const first = await granted(a);
    expect(await seen()).toBe(true);
    await a.forceRelease({ namespace, workerId: 7, fence: first.fence, force: true });
    const renewal = {
      namespace,
      workerId: 7,
      fence: first.fence,
      token: first.token,
      clock: Date.now(),
      window: 60_000,
    };
    expect(await a.renew(renewal)).toMatchObject({ outcome: "lost" });
    expect(await seen()).toBe(false);
    await granted(b);
    expect(await seen()).toBe(true);
    b.free();
    expect(await seen()).toBe(false);
    const c = await fileOf("c");
    await granted(c);
    await c.close();
    expect(await seen()).toBe(false);
  });

  test("a grant begins after the look, and continues nothing", async () => {
    const a = await fileOf("a");
    const first = await granted(a);
    const used = { until: first.from + 1, recents: { from: first.from, bytes: new Uint8Array() } };
    const { workerId, fence, token } = first;
    await a.release({ namespace, workerId, fence, token, clock: Date.now(), used });
    const asked = Date.now();
    const second = await granted(a, request({ clock: asked }));
    expect(second.from).toBeGreaterThan(asked);
    expect(second.recents).toBeUndefined();
  });

  test("where the store is no file, a claim is the registry's", async () => {
    const guarded = guardedRegistry(memoryRegistry(), systemClock);
    open.push(guarded);
    await granted(guarded);
    expect(readFileSync("/proc/net/unix", "latin1")).not.toContain(`snowlease/${namespace}/`);
  });
});
