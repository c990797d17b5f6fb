import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { eventually } from "../support/holder.ts";
import { startMaker } from "../support/maker.ts";
import { expectFoundOut } from "../support/put-back.ts";
import { backUp, restore } from "../support/sqlite-copy.ts";

let folder: string;
let file: string;
let copy: string;
let daemons: DaemonProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "snowlease-put-back-"));
  [file, copy] = [join(folder, "registry.db"), join(folder, "copy.db")];
  daemons = [];
});

afterEach(async () => {
  await Promise.all(daemons.map((daemon) => daemon.end("SIGKILL")));
  rmSync(folder, { recursive: true, force: true });
});

async function start(registry = `sqlite:${file}`, flags: readonly string[] = [], port = 0): Promise<DaemonProcess> {
  const daemon = await startDaemonProcess(registry, port, flags);
  daemons.push(daemon);
  return daemon;
}

/** Stops daemons, changes the files beneath them, and starts them again at the same addresses. */
async function beneath(stopped: readonly DaemonProcess[], flags: readonly string[], change: () => void): Promise<void> {
  await Promise.all(stopped.map((daemon) => daemon.end("SIGKILL")));
  change();
  for (const { port } of stopped) await start(undefined, flags, port);
}

function removeFile(): void {
  for (const end of ["", "-wal", "-shm"]) rmSync(file + end, { force: true });
}

function putBack(): void {
  removeFile();
  copyFileSync(copy, file);
}

/** A file with a key. */
function withKey(): readonly string[] {
  const keys = join(folder, "keys");
  writeFileSync(keys, "of-2026 00112233445566778899aabbccddeeff\n", { mode: 0o600 });
  return ["--receipt-keys", keys];
}

describe("the next renewal finds an older copy of the store", () => {
  test("where it is put beneath a stopped daemon", async () => {
    const daemon = await start();
    await expectFoundOut({
      url: daemon.url,
      isAway: true,
      copy: () => backUp(file, copy),
      putBack: () => beneath([daemon], [], putBack),
    });
  });

  test("where it is put beneath two stopped daemons with a key of their own", async () => {
    const flags = withKey();
    const pair = [await start(undefined, flags), await start(undefined, flags)];
    const url = pair.map((daemon) => daemon.url).join(",");
    await expectFoundOut({
      url,
      isAway: true,
      copy: () => backUp(file, copy),
      putBack: () => beneath(pair, flags, putBack),
    });
  });

  test("where it is put beneath a daemon with another one before it", async () => {
    const far = await start();
    const near = await start(far.url);
    await expectFoundOut({
      url: near.url,
      isAway: true,
      copy: () => backUp(file, copy),
      putBack: () => beneath([far], [], putBack),
    });
  });

  test("where it is written into the file of a daemon that runs", async () => {
    const { url } = await start();
    await expectFoundOut({ url, copy: () => backUp(file, copy), putBack: () => restore(file, copy) });
  });
});

test("the next claim finds an older copy beneath a daemon that runs, even if no holder renews", async () => {
  const { url } = await start();
  const registry = daemonRegistry([url]);
  const claim = (): ReturnType<Registry["claim"]> =>
    registry.claim({
      namespace: "default",
      token: crypto.randomUUID().replaceAll("-", ""),
      pool: { first: 0, last: 9 },
      holder: { host: "a", ip: "192.0.2.7", pid: 1, instance: "" },
      clock: Date.now(),
      window: 60_000,
      layout: defaultLayout.fingerprint,
    });
  expect(await claim()).toMatchObject({ outcome: "granted", workerId: 0 });
  await backUp(file, copy);
  expect(await claim()).toMatchObject({ outcome: "granted", workerId: 1 });
  await restore(file, copy);
  // A claim carries a recall at most once a second.
  await eventually(
    async () =>
      claim().then(
        () => "granted",
        ({ code }) => code,
      ),
    (answer) => answer === "QUARANTINE",
  );
  expect(await registry.describe("default")).toHaveProperty("quarantineUntil");
  await registry.close();
});

describe("a store that is created again, empty", () => {
  const options = { namespace: "default", layout: "westid", window: 3000, pool: "0-2" } as const;
  const limits = { maxWindow: 3000, maxClockSkew: 200 };

  test("ends the lease of a holder that cannot prove anything there", async () => {
    const daemon = await start();
    const maker = await startMaker({ ...options, registry: daemon.url, onLost: "stop" });
    const reasons: unknown[] = [];
    maker.snowflake.lease.on("lost", ({ reason }) => void reasons.push(reason));
    await beneath([daemon], [], removeFile);
    await eventually(
      async () => reasons,
      (lost) => lost.length > 0,
    );
    expect(reasons).toEqual(["forgotten"]);
    await maker.stop();
  });

  test("is in quarantine once a holder proves with a configured key that it forgot", async () => {
    const flags = withKey();
    const daemon = await start(undefined, flags);
    const registry = daemonRegistry([daemon.url]);
    const { fingerprint: layout } = defaultLayout;
    await registry.init({ namespace: "default", layout, ...limits, new: true });
    const before = await registry.describe("default");
    const maker = await startMaker({ ...options, registry: daemon.url, onLost: "switch" });
    const quarantines: number[] = [];
    maker.snowflake.lease.on("quarantine", () => void quarantines.push(Date.now()));
    await beneath([daemon], flags, removeFile);
    // Without `new`: a holder may have asked already.
    await registry.init({ namespace: "default", layout, ...limits });
    await eventually(
      async () => quarantines,
      (found) => found.length > 0,
    );
    const after = await eventually(
      () => registry.describe("default"),
      (info) => info?.quarantineEnd !== undefined,
    );
    expect(after?.id).not.toBe(before?.id);
    // Behind the quarantine, it claims anew.
    await maker.made(maker.ids.length + 1000);
    await maker.stop();
    expect(new Set(maker.ids).size).toBe(maker.ids.length);
    await registry.close();
  });
});
