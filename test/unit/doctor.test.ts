import type * as childProcess from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { SnowleaseError } from "../../src/id/errors.ts";
import { defaultLayout, Layout, layouts } from "../../src/id/layout.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { startDaemon } from "../../src/daemon.ts";
import type { CheckResult } from "../../src/ops/doctor/check.ts";
import { examine, type ExamineRequest } from "../../src/ops/doctor/doctor.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { sqliteRegistry } from "../../src/registries/sqlite/registry.ts";
import { beginQuarantine } from "../support/quarantine.ts";
import { fakeClock, type FakeClock, memoryRegistry } from "../../src/testing.ts";

// A program that tells about the clock has 2 s for it, and no test of these is about that: here it has as long as it takes.
vi.mock("node:child_process", async (original) => {
  const { promisify } = await import("node:util");
  const real = await original<typeof childProcess>();
  const run = promisify(real.execFile);
  const patient = (file: string, args: readonly string[], options: childProcess.ExecFileOptions): Promise<unknown> =>
    run(file, args, { ...options, timeout: 0 });
  return { ...real, execFile: Object.assign(() => undefined, { [promisify.custom]: patient }) };
});

let clock: FakeClock;
let registry: Registry;
beforeEach(() => {
  clock = fakeClock();
  registry = memoryRegistry({ clock });
  // A ping is quick, however slow the machine is.
  const stopwatch = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => stopwatch.mockRestore());
});

async function examined(patient: Partial<ExamineRequest> = {}): Promise<Record<string, CheckResult>> {
  const findings = await examine({
    open: async () => registry,
    named: true,
    namespace: "default",
    now: clock.now,
    ...patient,
  });
  return Object.fromEntries(findings.map((finding) => [finding.check, finding]));
}

/** The registry as something that is no embedded one, seen from afar. */
function remote(changes: Partial<Registry> = {}): Partial<ExamineRequest> {
  return { open: async () => ({ ...registry, kind: "daemon", ...changes }) };
}

async function claim(pool: { first: number; last: number }, layout: Layout = defaultLayout): Promise<void> {
  const holder = { host: "a", ip: "", pid: 1, instance: "" };
  const token = Math.random().toString(16).slice(2).padEnd(32, "0");
  const request = {
    namespace: "default",
    token,
    pool,
    holder,
    clock: clock.now(),
    window: 1000,
    layout: layout.fingerprint,
  };
  expect(await registry.claim(request)).toMatchObject({ outcome: "granted" });
}

describe("the doctor", () => {
  test("finds nothing wrong with a fresh registry", async () => {
    const found = await examined();
    expect(Object.values(found).map(({ status }) => status)).not.toContain("fail");
    expect(found["durability"]).toMatchObject({ status: "warn" });
    expect(found["namespace"]).toMatchObject({
      status: "warn",
      detail: expect.stringContaining("does not exist yet") as string,
    });
    expect(await registry.describe("default")).toBeUndefined();
  });

  test.each([
    [
      "redis",
      "warn",
      /or was forgotten: a first claim starts a quarantine\. Only if it never existed, make it without one: `snowlease init --new`/,
    ],
    ["etcd", "warn", /`snowlease init` or the first claim makes it\. If programs use it already,/],
    ["kubernetes", "warn", /`snowlease init` or the first claim makes it\. If /],
    ["zookeeper", "warn", /`snowlease init` or the first claim makes it\. If /],
    ["postgres", "warn", /yet; `snowlease init` makes it\. If /],
    ["daemon", "warn", /yet; `snowlease init` makes it\. If /],
  ])("says what a namespace that is not there means in %s", async (kind, status, detail) => {
    const { namespace } = await examined(remote({ kind }));
    expect(namespace).toMatchObject({ status, detail: expect.stringMatching(detail) as string });
  });

  test("closes what it opened", async () => {
    let closed = 0;
    await examined(remote({ close: async () => void closed++ }));
    expect(closed).toBe(1);
  });

  test.each([
    [{ is: "encrypted" }, "ok", /is encrypted, and the certificate is checked\.$/],
    [{ is: "local" }, "ok", /stays on this host\.$/],
    [
      { is: "plain", addresses: ["a:1", "b:2"], remedy: "`tls=true` in the registry URL" },
      "warn",
      /sent to a:1, b:2 is not encrypted: .*, then write `tls=true` in the registry URL\.$/,
    ],
    [{ is: "unchecked", setting: "`x` in y" }, "warn", /is not checked, .* Remove `x` in y\.$/],
  ] as const)("tells whether a network sees what is sent: %o", async (found, status, detail) => {
    const asked = { sent: { to: "the registry", encryption: async () => found } } as const;
    const expected = { check: "encryption", status, detail: expect.stringMatching(detail) as string };
    expect((await examined(asked))["encryption"]).toEqual(expected);
    // Also where the registry is away.
    const open = async (): Promise<Registry> => {
      throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The line is dead.");
    };
    expect((await examined({ ...asked, open }))["encryption"]).toEqual(expected);
  });

  test("says nothing of a network where nothing is sent, and why it is not known", async () => {
    expect(
      (await examined({ sent: { to: "the registry", encryption: async () => undefined } }))["encryption"],
    ).toBeUndefined();
    const encryption = async (): Promise<never> => {
      throw new SnowleaseError("CONFIG_INVALID", "There is no kubeconfig.");
    };
    const { encryption: found } = await examined({ sent: { to: "the registry", encryption } });
    expect(found).toMatchObject({ status: "fail", detail: "CONFIG_INVALID: There is no kubeconfig." });
    const behind = await examined({ sent: { to: "the daemon", encryption: async () => ({ is: "local" }) } });
    expect(behind["encryption"]?.detail).toMatch(
      /sent to the daemon stays on this host\. What the daemon sends to its own /,
    );
  });

  test("warns of a password that keeps nobody out", async () => {
    const ping = async (): ReturnType<Registry["ping"]> => ({ clock: clock.now(), durability: "", unguarded: true });
    const { login } = await examined(remote({ ping }));
    expect(login).toMatchObject({ status: "warn", detail: expect.stringContaining("asks for no password") as string });
    expect((await examined())["login"]).toBeUndefined();
  });

  test("tells what the registry promises", async () => {
    expect((await examined())["durability"]?.detail).toBe((await registry.ping()).durability);
  });

  test.each([
    [0, "ok"],
    [4000, "ok"],
    [-6000, "warn"],
    [10_500, "fail"],
    [-10_500, "fail"],
  ] as const)("a registry's clock that is %i ms ahead is %s", async (ahead, status) => {
    const ping = async (): ReturnType<Registry["ping"]> => ({ clock: clock.now() + ahead, durability: "" });
    const found = await examined(remote({ ping }));
    expect(found["clock"]).toMatchObject({
      status,
      detail: expect.stringContaining(`${Math.abs(ahead)} ms`) as string,
    });
  });

  test("shows both clocks", async () => {
    const ping = async (): ReturnType<Registry["ping"]> => ({ clock: clock.now() + 6000, durability: "" });
    const { detail } = (await examined(remote({ ping })))["clock"] ?? {};
    for (const time of [clock.now(), clock.now() + 6000]) expect(detail).toContain(new Date(time).toISOString());
    expect((await examined())["clock"]?.detail).toContain(new Date(clock.now()).toISOString());
  });

  test("shows id and era of a namespace, and warns where it has none", async () => {
    const info = await registry.init({ namespace: "default", layout: defaultLayout.fingerprint });
    const { era } = await examined();
    expect(era).toMatchObject({ status: "ok" });
    for (const part of [info.id, info.era]) expect(era?.detail).toContain(part);
    const { id: _, era: __, ...older } = info;
    const without = await examined(remote({ describe: async () => older }));
    expect(without["era"]).toMatchObject({ status: "warn", detail: expect.stringContaining("has no id") as string });
  });

  test("names the command that ends a quarantine, unless that changes nothing any more", async () => {
    const limits = { maxWindow: 120_000, maxClockSkew: 30_000 };
    await registry.init({ namespace: "default", layout: defaultLayout.fingerprint, ...limits });
    const detail = async (): Promise<string | undefined> =>
      (await examined({ flag: "--registry a:b" }))["quarantine"]?.detail;
    await beginQuarantine(registry, "default", clock.now);
    const { era = "" } = (await registry.describe("default")) ?? {};
    const command = `snowlease quarantine end --registry a:b --namespace default --era ${era} --i-know`;
    expect(await detail()).toMatch(/^In quarantine for another 3 min, .* Wait\. Or, /);
    expect(await detail()).toContain(command);
    // As long as the namespace tolerates clocks that differ.
    await registry.endQuarantine?.({ namespace: "default", era });
    expect(await detail()).toMatch(/^An operator ended the quarantine .* again in 1 min 1 s, at \S+Z\.$/);

    await clock.advance(300_000);
    await beginQuarantine(registry, "default", clock.now);
    await clock.advance(119_998);
    expect(await detail()).toContain("snowlease quarantine end ");
    await clock.advance(1);
    expect(await detail()).toMatch(/^In quarantine for another 1 min 1 s, .* goes on by itself\.$/);
  });

  test("says how long a quarantine lasts, and when it was", async () => {
    await registry.init({ namespace: "default", layout: defaultLayout.fingerprint });
    expect((await examined())["quarantine"]).toMatchObject({ status: "ok", detail: "There was no quarantine." });
    await beginQuarantine(registry, "default", clock.now);
    const { quarantineEnd = 0, era = "" } = (await registry.describe("default")) ?? {};
    await clock.advance(quarantineEnd - clock.now() - 61_000);
    const lasting = (await examined())["quarantine"];
    expect(lasting).toMatchObject({ status: "fail" });
    const end = new Date(quarantineEnd).toISOString();
    expect(lasting?.detail).toContain(
      `In quarantine for another 1 min 1 s, until ${end}: the store may have forgotten`,
    );
    expect(lasting?.detail).not.toContain("init");
    await registry.endQuarantine?.({ namespace: "default", era });
    const ended = (await examined())["quarantine"];
    expect(ended).toMatchObject({ status: "fail", detail: expect.stringContaining("again in 21 s, at") as string });
    await clock.advance(21_000);
    const over = `An operator ended the quarantine that was to last until ${end}.`;
    expect((await examined())["quarantine"]).toEqual({ check: "quarantine", status: "ok", detail: over });
    await clock.advance(61_000);
    const long = `No quarantine lasts; the last one was set to end at ${end}.`;
    expect((await examined())["quarantine"]).toEqual({ check: "quarantine", status: "ok", detail: long });
  });

  test("goes by the namespace's own limit of skew", async () => {
    await registry.init({ namespace: "default", layout: defaultLayout.fingerprint, maxClockSkew: 1000 });
    const ping = async (): ReturnType<Registry["ping"]> => ({ clock: clock.now() + 2000, durability: "" });
    expect((await examined(remote({ ping })))["clock"]).toMatchObject({ status: "fail" });
  });

  test("says when the registry does not answer, or cannot be opened", async () => {
    const fail = async (): Promise<never> => {
      throw new SnowleaseError("REGISTRY_UNAVAILABLE", "The line is dead.");
    };
    const expected = { status: "fail", detail: "REGISTRY_UNAVAILABLE: The line is dead." };
    expect((await examined(remote({ ping: fail })))["registry"]).toMatchObject(expected);
    expect((await examined({ open: fail }))["registry"]).toMatchObject(expected);
    expect((await examined(remote({ describe: fail })))["namespace"]).toMatchObject(expected);
  });

  test("finds what would keep a lease from being renewed, without one", async () => {
    await claim({ first: 0, last: 1023 });
    const rehearse = async (): Promise<never> => {
      throw new SnowleaseError("FORBIDDEN", "You may only read.");
    };
    expect((await examined(remote({ rehearse })))["renewal"]).toMatchObject({
      status: "fail",
      detail: "FORBIDDEN: You may only read.",
    });
    const ofReader = async (): Promise<never> => {
      throw new SnowleaseError("FORBIDDEN", "Expected a token of the role `worker`.", { role: "worker" });
    };
    // An operator who may only read made no mistake.
    expect((await examined(remote({ rehearse: ofReader })))["renewal"]).toMatchObject({ status: "unknown" });
    const before = await registry.workers("default");
    expect((await examined())["renewal"]).toMatchObject({ status: "ok" });
    expect(await registry.workers("default")).toEqual(before);
  });

  test("finds another layout than the namespace's, where one is set", async () => {
    await claim({ first: 0, last: 0 });
    expect((await examined())["namespace"]).toMatchObject({ status: "ok" });
    expect((await examined({ layout: defaultLayout }))["namespace"]).toMatchObject({ status: "ok" });
    expect((await examined({ layout: layouts.twitter }))["namespace"]).toMatchObject({ status: "fail" });
  });

  test.each([
    [3, "ok"],
    [1.5, "warn"],
    [-0.5, "fail"],
  ] as const)("a layout with %f years left is %s", async (years, status) => {
    const end = clock.now() + years * 365.25 * 86_400_000;
    const layout = Layout.parse(
      `timestamp:41,worker:10,sequence:12@${Math.round(end - 2 ** 41 * 0.5)}/1`.replace("41,", "40,"),
    );
    expect((await examined({ layout }))["layout"]).toMatchObject({ status });
    await registry.init({ namespace: "default", layout: layout.fingerprint });
    expect((await examined())["layout"]).toMatchObject({ status });
  });

  test("a layout whose timestamp wraps does not end, and one that has ended fails", async () => {
    expect((await examined({ layout: layouts.scene }))["layout"]).toMatchObject({
      status: "ok",
      detail: expect.stringContaining("starts again every 2097152 ms") as string,
    });
    clock.step(Date.parse("2026-11-20T00:00:00Z") - clock.now());
    expect((await examined({ layout: layouts.uid }))["layout"]).toMatchObject({
      status: "fail",
      detail: expect.stringContaining("ran out on 2024-11-20T13:24:16.000Z, 2.0 years ago") as string,
    });
  });

  test.each([
    [7, "ok"],
    [8, "warn"],
    [9, "warn"],
    [10, "fail"],
  ] as const)("a pool of 10 with %i taken is %s", async (taken, status) => {
    const pool = { first: 5, last: 14 };
    // Outside of the pool: of no concern.
    await claim({ first: 100, last: 100 });
    for (let i = 0; i < taken - 1; i++) await claim(pool);
    await registry.pin("default", 14, "a test");
    const found = await examined({ pool });
    expect(found["pool"]).toMatchObject({
      status,
      detail: expect.stringContaining(`${taken - 1} live, 0 resting, 1 pinned`) as string,
    });
  });

  test("does not count what is free again", async () => {
    for (let i = 0; i < 3; i++) await claim({ first: 0, last: 2 });
    expect((await examined({ pool: { first: 0, last: 2 } }))["pool"]).toMatchObject({ status: "fail" });
    await clock.advance(1001);
    expect((await examined({ pool: { first: 0, last: 2 } }))["pool"]).toMatchObject({ status: "ok" });
  });
});

describe("through a daemon", () => {
  test("it finds the same, and the daemon's log tells of nothing that did not happen", async () => {
    const lines: unknown[] = [];
    const note = (fields: object): void => void lines.push(fields);
    const log = { info: note, warn: note, error: note };
    const listen = { host: "127.0.0.1", port: 0 };
    const limits = { headersTimeout: 600_000, requestTimeout: 600_000 };
    const daemon = await startDaemon({ registry, clock, log, listen, limits });
    onTestFinished(() => daemon.close("now"));
    await fetch(`${daemon.url}/v1/default`, { method: "PUT" });
    lines.length = 0;
    const operationTimeout = 600_000;
    const found = await examined({ open: async () => daemonRegistry([daemon.url ?? ""], { operationTimeout }) });
    expect(Object.values(found).map(({ status }) => status)).not.toContain("fail");
    expect(found).toMatchObject({ registry: { status: "ok" }, clock: { status: "ok" }, renewal: { status: "ok" } });
    expect(lines).toEqual([]);
  });
});

describe("the synchronization of the clock", () => {
  /** Puts programs of these names in the place of all others. */
  function install(programs: Record<string, string>): void {
    const folder = mkdtempSync(join(tmpdir(), "snowlease-doctor-"));
    for (const [name, script] of Object.entries(programs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
    const { PATH } = process.env;
    process.env["PATH"] = folder;
    onTestFinished(() => {
      process.env["PATH"] = PATH;
      rmSync(folder, { recursive: true });
    });
  }

  const tracking = (leap: string): string =>
    `echo '7F7F0101,,10,1795288713.63,0.000001,0.000002,0.000003,-1.2,0.0,0.1,0.0,0.0,64.0,${leap}'`;

  test.each<[status: CheckResult["status"], what: string, programs: Record<string, string>]>([
    ["unknown", "there is nobody to ask", {}],
    [
      "unknown",
      "nobody is up to answering",
      { timedatectl: "echo no bus >&2; exit 1", chronyc: "echo '506 ?'; exit 1" },
    ],
    ["unknown", "an answer makes no sense", { timedatectl: "echo perhaps", chronyc: "echo hello" }],
    ["ok", "the kernel says so", { timedatectl: "echo yes" }],
    ["warn", "the kernel denies it", { timedatectl: "echo no", chronyc: tracking("Normal") }],
    ["ok", "only chrony says so", { timedatectl: "exit 1", chronyc: tracking("Normal") }],
    ["ok", "chrony is about to insert a leap second", { chronyc: tracking("Insert second") }],
    ["warn", "chrony denies it", { chronyc: tracking("Not synchronised") }],
  ])("is %s where %s", async (status, _, programs) => {
    install(programs);
    expect((await examined())["clock-sync"]).toMatchObject({ status });
  });
});

describe("the file of an embedded registry", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "snowlease-doctor-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  });

  const sqlite = (file: string): Partial<ExamineRequest> => ({
    file,
    open: () => sqliteRegistry({ path: file, operationTimeout: 1000, clock }),
  });

  test("is not made by looking for it", async () => {
    const file = join(folder, "deep", "registry.db");
    const found = await examined(sqlite(file));
    expect(found["file"]?.detail).toContain("does not exist yet");
    expect(found["layout"]).toMatchObject({ status: "ok" });
    expect(existsSync(join(folder, "deep"))).toBe(false);
  });

  test("is examined where it is", async () => {
    const file = join(folder, "registry.db");
    const made = await sqliteRegistry({ path: file, operationTimeout: 1000, clock });
    await made.init({ namespace: "default", layout: defaultLayout.fingerprint });
    await made.close();
    const found = await examined(sqlite(file));
    for (const check of ["registry", "namespace", "renewal"]) expect(found[check]).toMatchObject({ status: "ok" });
    expect(found["file"]?.detail).toContain(file);
  });

  test("that is something else is a finding", async () => {
    const file = join(folder, "registry.db");
    writeFileSync(file, "no database, but long enough to have been one, had it wanted to be".repeat(9));
    expect((await examined(sqlite(file)))["registry"]).toMatchObject({ status: "fail" });
  });

  test.skipIf(process.getuid?.() === 0)("that cannot be written is a finding", async () => {
    const file = join(folder, "registry.db");
    writeFileSync(file, "");
    chmodSync(file, 0o400);
    expect((await examined(sqlite(file)))["file"]).toMatchObject({
      status: "fail",
      detail: expect.stringContaining("EACCES") as string,
    });
  });

  test.skipIf(!existsSync("/dev/shm"))("in memory only is a finding", async () => {
    expect((await examined(sqlite("/dev/shm/snowlease-doctor/registry.db")))["file"]).toMatchObject({
      status: "warn",
      detail: expect.stringContaining("tmpfs") as string,
    });
  });
});
