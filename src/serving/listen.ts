import { once } from "node:events";
import type { Stats } from "node:fs";
import { chmod, link, lstat, mkdir, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, type ListenOptions, type Server } from "node:net";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Server as SecureServer } from "node:tls";
import { shown, SnowleaseError } from "../id/errors.ts";
import { maxSocketPath } from "../registries/daemon/address.ts";

/** If a lock is older than this, a daemon was killed while it started, ms. A start takes a few ms. */
const longestStart = 2000;
/** For how long a daemon waits for others that start on its socket, ms. If the lock stays new for longer, it is another program's. */
const longestWait = 10_000;
/** How many connections may wait, up to the kernel's limit. Node's 511 are too few for the clients that return after a restart. */
const backlog = 65_535;

/**
 * Listens on an address, and returns its URL. @param scheme of the URL. With TLS, an `s` is added.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function listenOnTcp(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  scheme: string,
): Promise<string> {
  // If a name has two addresses, a client may know only the other one.
  const address = host.toLowerCase() === "localhost" ? "127.0.0.1" : host;
  await open(server, { host: address, port, exclusive: true }, `${host}:${port}`);
  const { address: ip, port: bound, family } = server.address() as AddressInfo;
  const secure = server instanceof SecureServer ? "s" : "";
  return `${scheme}${secure}://${family === "IPv6" ? `[${ip}]` : ip}:${bound}`;
}

/**
 * Listens on a Unix socket for its owner and group. Makes its folder, and replaces a socket that a dead daemon left.
 * @param option names the path. @param checkFolder throws if the folder must not be used. The folder exists when it is called.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function listenOnSocket(
  server: Server,
  path: string,
  option: "resp" | "socket",
  checkFolder?: () => void,
): Promise<void> {
  if (Buffer.byteLength(path) > maxSocketPath) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Expected \`${option}\` to be a path of at most ${maxSocketPath} bytes, got ${shown(path)}.`,
    );
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 });
    checkFolder?.();
    await alone(`${path}.lock`, async () => {
      await clearSocket(path);
      await open(server, { path }, path);
      await chmod(path, 0o660);
    });
  } catch (cause) {
    if (cause instanceof SnowleaseError) throw cause;
    throw cannotListen(path, reasonOf(cause), cause);
  }
}

async function open(server: Server, options: ListenOptions, where: string): Promise<void> {
  try {
    server.listen({ backlog, ...options });
    await once(server, "listening");
  } catch (cause) {
    throw cannotListen(where, reasonOf(cause), cause);
  }
}

function cannotListen(where: string, what: string, cause?: unknown): SnowleaseError {
  return new SnowleaseError("CONFIG_INVALID", `Cannot listen on ${where}: ${what}.`, {}, { cause });
}

function reasonOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  return code === "EADDRINUSE" ? "it is in use; stop what listens there, or choose another" : message;
}

/** Lets one daemon at a time start on a path. Otherwise, of two daemons that find a dead daemon's socket, one could remove the other's. */
async function alone(lock: string, start: () => Promise<void>): Promise<void> {
  const end = performance.now() + longestWait;
  while (!(await taken(lock))) {
    if (await freed(lock)) continue;
    if (performance.now() > end) {
      const what = `another program has kept the lock ${lock} new for ${longestWait / 1000} s`;
      throw new Error(`${what}; end that program, or choose another path`);
    }
    await sleep(20);
  }
  try {
    await start();
  } finally {
    await rm(lock, { force: true });
  }
}

async function taken(lock: string): Promise<boolean> {
  try {
    await writeFile(lock, "", { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes a lock that a killed daemon left. Returns whether it did. Only the daemon that gave the lock a second name removes it.
 * Otherwise, of two daemons that find it old, the later one would remove the new lock of the earlier one.
 */
async function freed(lock: string): Promise<boolean> {
  if (!isOld((await found(lock))?.mtimeMs)) return false;
  const second = `${lock}.old`;
  try {
    await link(lock, second);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST" && code !== "ENOENT") throw error;
    // ctime is the time of the last link. If it is old, a daemon was killed at this point.
    if (isOld((await found(second))?.ctimeMs)) await rm(second, { force: true });
    return false;
  }
  try {
    // The second name may belong to a newer lock than the one found above.
    const old = isOld((await found(second))?.mtimeMs);
    if (old) await rm(lock, { force: true });
    return old;
  } finally {
    await rm(second, { force: true });
  }
}

function isOld(time: number | undefined): boolean {
  return time !== undefined && Math.abs(Date.now() - time) > longestStart;
}

async function found(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Removes a socket without a listener. Refuses a socket with a listener, and any other file. */
async function clearSocket(path: string): Promise<void> {
  const there = await found(path);
  if (there === undefined) return;
  if (!there.isSocket()) throw cannotListen(path, "there is something that is not a socket; choose another path");
  if (await answers(path)) {
    throw cannotListen(path, "another daemon listens there; stop it, or choose another path");
  }
  await rm(path, { force: true });
}

/** Whether a socket has a listener. A refused connection proves that it has none. A full queue proves that it has one. */
async function answers(path: string): Promise<boolean> {
  const socket = connect({ path });
  try {
    await once(socket, "connect");
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EAGAIN") return true;
    // ENOENT: a daemon that drained has removed the socket since.
    if (code === "ECONNREFUSED" || code === "ENOENT") return false;
    throw error;
  } finally {
    socket.destroy();
  }
}
