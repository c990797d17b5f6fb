import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import type { SnowleaseError } from "../../src/id/errors.ts";
import { type Daemon, type DaemonOptions, startDaemon } from "../../src/daemon.ts";
import { memoryRegistry } from "../../src/testing.ts";

const log = { info() {}, warn() {}, error() {} };
const anyPort = { host: "127.0.0.1", port: 0 };
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function start(options: Partial<DaemonOptions> = {}): Promise<Daemon> {
  const daemon = await startDaemon({ registry: memoryRegistry(), log, listen: anyPort, ...options });
  cleanups.push(() => daemon.close("now"));
  return daemon;
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "snowlease-"));
  cleanups.push(() => rmSync(path, { recursive: true }));
  return path;
}

describe("the socket", () => {
  /** Asks /healthz over a Unix socket. */
  async function askSocket(socketPath: string): Promise<number | undefined> {
    const sent = request({ socketPath, path: "/healthz", agent: false }).end();
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode;
  }

  test("is made for its owner and group, in a folder made for them, and goes with the daemon", async () => {
    const path = join(folder(), "run/deep/snowlease.sock");
    const daemon = await start({ listen: undefined, socket: path });
    expect([daemon.url, daemon.socket]).toEqual([undefined, path]);
    expect(await askSocket(path)).toBe(200);
    expect((statSync(path).mode & 0o777).toString(8)).toBe("660");
    expect((statSync(join(path, "..")).mode & 0o777).toString(8)).toBe("750");
    await daemon.close();
    expect(existsSync(path)).toBe(false);
  });

  test("leaves a folder that was there as it was", async () => {
    const there = folder();
    chmodSync(there, 0o711);
    await start({ socket: join(there, "s") });
    expect((statSync(there).mode & 0o777).toString(8)).toBe("711");
  });

  test("that a dead daemon left is replaced", async () => {
    const path = join(folder(), "s");
    await leaveSocket(path);
    expect(lstatSync(path).isSocket()).toBe(true);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
  });

  test.each([
    ["that a dead daemon left", leaveSocket],
    ["that is not there", async () => {}],
  ] as const)("%s goes to one of several that start at once", async (_, prepare) => {
    for (let round = 0; round < 10; round++) {
      const there = folder();
      const path = join(there, "s");
      await prepare(path);
      const starts = Array.from({ length: 4 }, () => start({ listen: undefined, socket: path }));
      const started = await Promise.allSettled(starts);
      const refused = started.filter((result) => result.status === "rejected");
      expect(refused.map(({ reason }) => (reason as SnowleaseError).code)).toEqual(Array(3).fill("CONFIG_INVALID"));
      expect(await askSocket(path)).toBe(200);
      expect(readdirSync(there)).toEqual(["s"]);
      const [winner] = started.filter((result) => result.status === "fulfilled");
      await winner?.value.close();
      expect(readdirSync(there)).toEqual([]);
    }
  });

  test("waits for one that is starting, and not for one that was killed while it did", async () => {
    const path = join(folder(), "s");
    const lock = `${path}.lock`;
    writeFileSync(lock, "");
    const starting = start({ listen: undefined, socket: path });
    expect(await Promise.race([starting, setTimeout(100, "waits")])).toBe("waits");
    rmSync(lock);
    await (await starting).close();

    writeFileSync(lock, "");
    utimesSync(lock, 0, 0);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
    expect(existsSync(lock)).toBe(false);
  });

  test("does not wait for one that was killed while it removed the lock of another either", async () => {
    const path = join(folder(), "s");
    const lock = `${path}.lock`;
    writeFileSync(lock, "");
    utimesSync(lock, 0, 0);
    linkSync(lock, `${lock}.old`);
    await start({ listen: undefined, socket: path });
    expect(await askSocket(path)).toBe(200);
    expect(readdirSync(join(path, ".."))).toEqual(["s"]);
  });

  test("of a living daemon is refused, and goes on", async () => {
    const path = join(folder(), "s");
    await start({ listen: undefined, socket: path });
    await expect(start({ listen: undefined, socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("another daemon listens there"),
    });
    expect(await askSocket(path)).toBe(200);
  });

  test("never takes the place of a file", async () => {
    const path = join(folder(), "precious");
    writeFileSync(path, "data");
    await expect(start({ socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("not a socket"),
    });
    expect(readFileSync(path, "utf8")).toBe("data");
  });

  test("of more than 107 bytes is refused", async () => {
    const path = join(folder(), "é".repeat(50));
    await expect(start({ socket: path })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("107 bytes"),
    });
  });

  test("in a folder that cannot be made is refused in one line, and nothing goes on listening", async () => {
    const file = join(folder(), "file");
    writeFileSync(file, "");
    const first = await start();
    const listen = { host: "127.0.0.1", port: Number(new URL(first.url ?? "").port) };
    await first.close();
    await expect(start({ listen, socket: join(file, "s") })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await start({ listen });
  });
});

/** Makes a socket file as a daemon leaves it that was killed: nobody listens behind it. */
async function leaveSocket(path: string): Promise<void> {
  const { link, rename } = await import("node:fs/promises");
  const server = createServer();
  server.listen(`${path}.live`);
  await once(server, "listening");
  // A server unlinks its own path when it closes, not another name of the same socket.
  await link(`${path}.live`, `${path}.kept`);
  server.close();
  await once(server, "close");
  await rename(`${path}.kept`, path);
}
