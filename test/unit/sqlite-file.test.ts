import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { checkFileSystem } from "../../src/registries/sqlite/file.ts";
import type { SqliteOptions } from "../../src/registries/sqlite/registry.ts";
import { claimRequest, contents, namespace, newFolder, openRaw, openSqlite } from "../support/sqlite.ts";

const isRoot = process.getuid?.() === 0;
const dist = pathToFileURL(join(import.meta.dirname, "../../dist/registries/sqlite/registry.js")).href;

function system(command: string, ...args: string[]): void {
  execFileSync(command, args);
}

/** Fails to open, and leaves the folder as it was, to the byte. */
async function refused(path: string, folder: string): Promise<SnowleaseError> {
  const before = contents(folder);
  const error: unknown = await openSqlite(path).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(contents(folder)).toEqual(before);
  expect(error).toBeInstanceOf(SnowleaseError);
  return error as SnowleaseError;
}

/** A closed registry in which one claim was made. */
async function madeRegistry(folder: string): Promise<string> {
  const made = join(folder, "made.db");
  const script = `
    const { sqliteRegistry } = await import(${JSON.stringify(dist)});
    const registry = await sqliteRegistry({ path: ${JSON.stringify(made)}, operationTimeout: 5000 });
    await registry.claim(${JSON.stringify(claimRequest())});
    await registry.close();`;
  // In a process of its own, so that what its driver leaves beside the file until it ends is gone.
  execFileSync(process.execPath, ["--input-type=module", "-e", script]);
  const path = join(folder, "registry.db");
  const raw = await openRaw(made);
  raw.exec("PRAGMA journal_mode = DELETE; PRAGMA journal_mode = WAL");
  raw.close();
  copyFileSync(made, path);
  for (const file of [made, `${made}-wal`, `${made}-shm`]) rmSync(file, { force: true });
  return path;
}

describe("a file that is missing", () => {
  test("is made, with the folders above it for this user alone", async () => {
    const folder = newFolder();
    const registry = await openSqlite(join(folder, "a", "b", "registry.db"));
    await registry.claim(claimRequest());
    expect(statSync(join(folder, "a")).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, "a", "b")).mode & 0o777).toBe(0o700);
  });

  test("is made where it is there but empty", async () => {
    const path = join(newFolder(), "registry.db");
    writeFileSync(path, "");
    const registry = await openSqlite(path);
    expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted", workerId: 0 });
  });

  test("is not made beside a log that is there: it was lost", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "registry.db-wal"), "frames");
    const error = await refused(join(folder, "registry.db"), folder);
    expect(error).toMatchObject({ code: "CONFIG_INVALID" });
    expect(error.message).toContain("registry.db-wal");
  });

  test("is made once by ten that open it at the same time", async () => {
    const path = join(newFolder(), "registry.db");
    const registries = await Promise.all(Array.from({ length: 10 }, () => openSqlite(path)));
    const answers = await Promise.all(registries.map((registry) => registry.claim(claimRequest())));
    const ids = answers.map((answer) => answer.outcome === "granted" && answer.workerId);
    expect(new Set(ids)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
  });

  test("is found through a link", async () => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    const registry = await openSqlite(path);
    await registry.claim(claimRequest());
    symlinkSync(path, join(folder, "link.db"));
    const linked = await openSqlite(join(folder, "link.db"));
    expect(await linked.worker(namespace, 0)).toMatchObject({ state: "live" });
  });
});

describe("a file that cannot be a registry is refused and left as it is", () => {
  test.each([
    ["text", "This is a letter, and no database.\n".repeat(300)],
    ["one byte", "x"],
    ["zeros", "\0".repeat(8192)],
    ["the beginning of a database", `SQLite format 3\0${"\xff".repeat(2000)}`],
  ])("%s", async (_, bytes) => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    writeFileSync(path, bytes, "latin1");
    const error = await refused(path, folder);
    expect(["CONFIG_INVALID", "REGISTRY_UNAVAILABLE"]).toContain(error.code);
    expect(error.message).toContain(path);
  });

  test.each(["DELETE", "WAL"])("another program's database with the journal mode %s", async (mode) => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    const made = join(folder, "made.db");
    const raw = await openRaw(made);
    raw.exec(`PRAGMA journal_mode = ${mode}; CREATE TABLE song (title TEXT); INSERT INTO song VALUES ('x')`);
    if (mode === "WAL") raw.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    copyFileSync(made, path);
    const error = await refused(path, folder);
    expect(error.code).toBe("SCHEMA_INCOMPATIBLE");
    expect(error.message).toContain("another program");
  });

  test("another program's database without tables", async () => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    const raw = await openRaw(path);
    raw.exec("PRAGMA application_id = 252006674");
    raw.close();
    expect((await refused(path, folder)).code).toBe("SCHEMA_INCOMPATIBLE");
  });

  test("a registry of a newer version", async () => {
    const folder = newFolder();
    const path = await madeRegistry(folder);
    const bytes = readFileSync(path);
    bytes.writeUInt32BE(7, 60);
    writeFileSync(path, bytes);
    const error = await refused(path, folder);
    expect(error.code).toBe("SCHEMA_INCOMPATIBLE");
    expect(error.message).toContain("has the schema 7");
  });

  test.each(["DROP TABLE history", "DROP INDEX worker_by_host", "ALTER TABLE namespace DROP COLUMN clock_ahead"])(
    "a registry that lacks a part: %s",
    async (damage) => {
      const folder = newFolder();
      const path = await madeRegistry(folder);
      const raw = await openRaw(path);
      raw.exec(`${damage}; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE`);
      raw.close();
      const error = await refused(path, folder);
      expect(error.code).toBe("SCHEMA_INCOMPATIBLE");
      expect(error.message).toMatch(/lacks a part .*\(no such .*put a copy back/);
    },
  );

  test("a registry whose newer version stands only in its log", async () => {
    const path = join(newFolder(), "registry.db");
    await openSqlite(path);
    const raw = await openRaw(path);
    raw.exec("PRAGMA user_version = 7");
    await expect(openSqlite(path)).rejects.toMatchObject({ code: "SCHEMA_INCOMPATIBLE" });
  });

  test("a registry that was cut off", async () => {
    const folder = newFolder();
    const path = await madeRegistry(folder);
    truncateSync(path, 10_000);
    const error = await refused(path, folder);
    expect(error.code).toBe("REGISTRY_UNAVAILABLE");
    expect(error.message).toMatch(/is damaged .*malformed/);
  });

  test("a folder", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "sub"));
    for (const path of [join(folder, "sub"), `${folder}/new/`]) {
      expect(await refused(path, folder)).toMatchObject({ code: "CONFIG_INVALID" });
    }
  });

  test("a pipe", async () => {
    const folder = newFolder();
    system("mkfifo", join(folder, "pipe"));
    await expect(openSqlite(join(folder, "pipe"))).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("a path below a file", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "file"), "x");
    expect(await refused(join(folder, "file", "registry.db"), folder)).toMatchObject({ code: "CONFIG_INVALID" });
  });

  test.each(["", "a\0b.db", undefined as unknown as string])("the path %j", async (path) => {
    await expect(openSqlite(path)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  test("a path that SQLite would take for something else is a file like any other", async () => {
    const folder = newFolder();
    const registry = await openSqlite(join(folder, "file:x?mode=memory#%41"));
    await registry.claim(claimRequest());
    expect(contents(folder).has("file:x?mode=memory#%41")).toBe(true);
  });
});

test.each([0x6969, 0x517b, 0xff534d42, 0xfe534d42])("a network file system (%i) is refused", (type) => {
  expect(() => checkFileSystem(type, "registry.db")).toThrow(/network file system/);
});

test("a local file system is not", () => {
  for (const type of [0xef53, 0x1021994, 0x58465342, 0x794c7630]) checkFileSystem(type, "registry.db");
});

/** Runs a program as the user `nobody`; what it says on its stderr. */
function runAsNobody(script: string): string {
  const asNobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", process.execPath] as const;
  const [command, ...args] = asNobody;
  return spawnSync(command, [...args, "--input-type=module", "-e", script], { encoding: "utf8" }).stderr;
}

const canBeNobody = isRoot && runAsNobody(`await import(${JSON.stringify(dist)})`) === "";

describe.skipIf(!canBeNobody)("without permission (needs root, and a checkout that all may read)", () => {
  function asNobody(path: string): string {
    return runAsNobody(`
      const { sqliteRegistry } = await import(${JSON.stringify(dist)});
      try {
        const registry = await sqliteRegistry({ path: ${JSON.stringify(path)}, operationTimeout: 1000 });
        await registry.claim(${JSON.stringify(claimRequest())});
      } catch (error) {
        console.error(error.code, error.message);
      }`);
  }

  test("a file that may only be read", async () => {
    const folder = newFolder();
    const path = await madeRegistry(folder);
    chmodSync(folder, 0o777);
    chmodSync(path, 0o444);
    const before = contents(folder);
    expect(asNobody(path)).toMatch(/^CONFIG_INVALID The registry file .*EACCES.*\n$/);
    expect(contents(folder)).toEqual(before);
  });

  test("a folder that may only be read", async () => {
    const folder = newFolder();
    const path = await madeRegistry(folder);
    chmodSync(folder, 0o755);
    chmodSync(path, 0o666);
    const before = contents(folder);
    expect(asNobody(path)).toMatch(/^CONFIG_INVALID .*EACCES.*\n$/);
    expect(contents(folder)).toEqual(before);
  });

  test("a folder that may not be entered, or not be made", () => {
    const folder = newFolder();
    chmodSync(folder, 0o700);
    expect(asNobody(join(folder, "registry.db"))).toMatch(/^CONFIG_INVALID .*EACCES.*\n$/);
    chmodSync(folder, 0o755);
    expect(asNobody(join(folder, "sub", "registry.db"))).toMatch(/^CONFIG_INVALID .*EACCES.*\n$/);
    expect(contents(folder).size).toBe(0);
  });

  test("a registry that others made for all is used", async () => {
    const folder = newFolder();
    chmodSync(folder, 0o777);
    const path = await madeRegistry(folder);
    chownSync(path, 0, 65534);
    chmodSync(path, 0o660);
    expect(asNobody(path)).toBe("");
    expect(await (await openSqlite(path)).workers(namespace)).toHaveLength(2);
  });
});

const [mayMount, ...nothing] = ["unshare", "--mount", "true"] as const;
const canMount = isRoot && spawnSync(mayMount, nothing).status === 0;

describe.skipIf(!canMount)("on a disk of its own (needs root that may mount one)", () => {
  function mounted(options: string): string {
    const folder = newFolder();
    system("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder);
    onTestFinished(() => system("umount", "--lazy", folder));
    return folder;
  }

  test("that is full, a claim fails, and what was acknowledged stays", async () => {
    const folder = mounted("size=1m");
    const registry = await openSqlite(join(folder, "registry.db"));
    const first = await registry.claim(claimRequest());
    const bytes = new Uint8Array(60_000);
    const seen: unknown[] = [];
    for (let i = 0; i < 40 && seen.length === 0; i++) {
      const request = claimRequest();
      const grant = await registry.claim(request).catch((error: unknown) => seen.push(error));
      if (typeof grant === "number" || grant.outcome !== "granted") continue;
      const { workerId, fence, from, until } = grant;
      const used = { until, recents: { from, bytes } };
      await registry
        .release({ namespace, workerId, fence, token: request.token, clock: request.clock, used })
        .catch((error: unknown) => seen.push(error));
    }
    expect(seen).toMatchObject([{ code: "REGISTRY_UNAVAILABLE", retryable: true }]);
    expect((seen[0] as Error).message).toMatch(/disk is full/);
    expect(first).toMatchObject({ outcome: "granted", workerId: 0 });
    expect(await registry.worker(namespace, 0)).toMatchObject({ fence: expect.any(Number) as number });
  });

  test("that is full from the start, nothing is made", async () => {
    const folder = mounted("size=32k");
    await expect(openSqlite(join(folder, "registry.db"))).rejects.toMatchObject({ code: "REGISTRY_UNAVAILABLE" });
    expect([...contents(folder).values()].filter((file) => !file.startsWith("0 "))).toEqual([]);
  });

  test("a file that was mounted by itself would have its log elsewhere, and is refused", async () => {
    const folder = newFolder();
    const path = join(folder, "a \\ b.db");
    const made = await madeRegistry(newFolder());
    writeFileSync(path, "");
    system("mount", "--bind", made, path);
    onTestFinished(() => system("umount", "--lazy", path));
    const error = await refused(path, folder);
    expect(error.code).toBe("CONFIG_INVALID");
    expect(error.message).toMatch(/mount its folder/);
  });

  test("that is read-only, nothing is tried", async () => {
    const folder = mounted("size=4m");
    const path = join(folder, "registry.db");
    copyFileSync(await madeRegistry(newFolder()), path);
    system("mount", "-o", "remount,ro", folder);
    const error = await refused(path, folder);
    expect(error.code).toBe("CONFIG_INVALID");
    expect(error.message).toContain("EROFS");
    expect(await refused(join(folder, "new.db"), folder)).toMatchObject({ code: "CONFIG_INVALID" });
  });
});

describe("a file that is open", () => {
  /** A registry with one claim, and a renewal of it. */
  async function held(path: string, options: Partial<SqliteOptions> = {}): Promise<() => Promise<unknown>> {
    const registry = await openSqlite(path, options);
    const request = claimRequest();
    const grant = await registry.claim(request);
    if (grant.outcome !== "granted") throw new Error("not granted");
    const { workerId, fence } = grant;
    const key = { namespace, workerId, fence, token: request.token, window: 60_000 };
    return () => registry.renew({ ...key, clock: Date.now() });
  }

  /** Another process opens the file, claims, and ends. */
  function otherProcess(path: string): string {
    const script = `
      const { sqliteRegistry } = await import(${JSON.stringify(dist)});
      try {
        const registry = await sqliteRegistry({ path: ${JSON.stringify(path)}, operationTimeout: 500 });
        const { workerId } = await registry.claim(${JSON.stringify(claimRequest())});
        await registry.close();
        console.log(workerId);
      } catch (error) {
        console.log(error.code);
      }`;
    return execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" }).trim();
  }

  const removed = {
    code: "REGISTRY_UNAVAILABLE",
    message: expect.stringMatching(/was removed or replaced while/) as string,
  };

  test("and was removed is used no more, until it is put back", async () => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    const renew = await held(path);
    renameSync(path, join(folder, "old.db"));
    await expect(renew()).rejects.toMatchObject(removed);
    renameSync(join(folder, "old.db"), path);
    expect(await renew()).toMatchObject({ outcome: "renewed" });
  });

  test("and was replaced is another registry, in which nothing is known of its holders", async () => {
    const path = join(newFolder(), "registry.db");
    const registry = await openSqlite(path);
    const request = claimRequest();
    const grant = await registry.claim(request);
    if (grant.outcome !== "granted") throw new Error("not granted");
    expect(grant.store?.isReplaced).toBe(false);
    for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix);
    expect(grant.store?.isReplaced).toBe(false);
    expect(otherProcess(path)).toBe("0");
    expect(grant.store?.isReplaced).toBe(true);
    const { workerId, fence } = grant;
    const key = { namespace, workerId, fence, token: request.token, clock: Date.now() };
    expect(await registry.renew({ ...key, window: 60_000 })).toMatchObject({ outcome: "lost" });
    expect(await registry.release(key)).toMatchObject({ outcome: "lost" });
    const next = await registry.claim(claimRequest());
    expect(next).toMatchObject({ outcome: "granted", workerId: 1 });
    expect(otherProcess(path)).toBe("2");
  });

  test("and is reached by a link that points elsewhere now is another registry", async () => {
    const folder = newFolder();
    const path = join(folder, "registry.db");
    mkdirSync(join(folder, "a"));
    mkdirSync(join(folder, "b"));
    symlinkSync("a/registry.db", path);
    await openSqlite(join(folder, "a", "registry.db"));
    const registry = await openSqlite(path);
    const grant = await registry.claim(claimRequest());
    expect(grant).toMatchObject({ workerId: 0, store: { isReplaced: false } });
    await openSqlite(join(folder, "b", "registry.db"));
    rmSync(path);
    symlinkSync("b/registry.db", path);
    expect(grant).toMatchObject({ store: { isReplaced: true } });
    expect(await registry.claim(claimRequest())).toMatchObject({ workerId: 0, store: { isReplaced: false } });
    expect(await registry.workers(namespace)).toHaveLength(1);
  });

  test.each([[["-wal"]], [["-wal", "-shm"]]])("and lost its %j is used no more, by no process", async (suffixes) => {
    const path = join(newFolder(), "registry.db");
    const renew = await held(path);
    for (const suffix of suffixes) rmSync(path + suffix);
    await expect(renew()).rejects.toMatchObject(removed);
    // Without its log it is a registry from before.
    expect(otherProcess(path)).toBe("REGISTRY_UNAVAILABLE");
    await expect(openSqlite(path, { operationTimeout: 100 })).rejects.toMatchObject(removed);
    await expect(renew()).rejects.toMatchObject(removed);
  });

  test("by a process that was killed, and then lost its log, is refused until the operator says that its windows have passed", async () => {
    const path = join(newFolder(), "registry.db");
    const script = `
      const { sqliteRegistry } = await import(${JSON.stringify(dist)});
      const registry = await sqliteRegistry({ path: ${JSON.stringify(path)}, operationTimeout: 5000 });
      await registry.claim(${JSON.stringify(claimRequest())});
      process.kill(process.pid, "SIGKILL");`;
    spawnSync(process.execPath, ["--input-type=module", "-e", script]);
    rmSync(`${path}-wal`);
    expect(otherProcess(path)).toBe("REGISTRY_UNAVAILABLE");
    await expect(openSqlite(path)).rejects.toMatchObject({
      ...removed,
      message: expect.stringMatching(/-wal`.* wait until their windows have passed .*remove `.*-shm`/) as string,
    });
    rmSync(`${path}-shm`);
    expect(otherProcess(path)).toBe("0");
  });

  test("and lost the index of its log is used no more by the processes that had it open", async () => {
    const path = join(newFolder(), "registry.db");
    const renew = await held(path);
    rmSync(`${path}-shm`);
    await expect(renew()).rejects.toMatchObject(removed);
    // The log tells one that opens it now what was granted.
    expect(otherProcess(path)).toBe("1");
    await expect(renew()).rejects.toMatchObject(removed);
  });

  test("and loses its log while an operation is under way has not done it", async () => {
    const path = join(newFolder(), "registry.db");
    let during = (): void => undefined;
    const clock = { ...systemClock, now: () => (during(), Date.now()) };
    const registry = await openSqlite(path, { clock });
    await registry.claim(claimRequest());
    during = () => rmSync(`${path}-wal`, { force: true });
    await expect(registry.claim(claimRequest())).rejects.toMatchObject(removed);
  });

  test("is also used by processes that come and go, the last of which would remove the log", async () => {
    const path = join(newFolder(), "registry.db");
    const registry = await openSqlite(path);
    expect(otherProcess(path)).toBe("0");
    expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted", workerId: 1 });
    expect(otherProcess(path)).toBe("2");
    const raw = await openRaw(path);
    raw.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    raw.close();
    expect(await registry.claim(claimRequest())).toMatchObject({ outcome: "granted", workerId: 3 });
  });
});

test("without a driver it says what to install; with the one that is built in it says nothing", () => {
  const folder = newFolder();
  // Out of reach of node_modules.
  for (const part of ["dist", "sql"])
    cpSync(join(import.meta.dirname, "../..", part), join(folder, part), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const registry = JSON.stringify(pathToFileURL(join(folder, "dist/registries/sqlite/registry.js")).href);
  const script = `
    const { sqliteRegistry } = await import(${registry});
    try {
      const registry = await sqliteRegistry({ path: ${JSON.stringify(join(folder, "registry.db"))}, operationTimeout: 5000 });
      await registry.claim(${JSON.stringify(claimRequest())});
    } catch (error) {
      console.error(error.code, error.message);
    }`;
  const args = ["--disable-warning=SNOWLEASE_NEW_REGISTRY", "--input-type=module", "-e", script];
  const { stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const isBuiltin = process.getBuiltinModule("node:sqlite") !== undefined;
  expect(stderr).toMatch(isBuiltin ? /^$/ : /^DRIVER_MISSING .*npm install libsql@0\.5.*\n$/);
});
