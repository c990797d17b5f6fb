import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { systemClock } from "../../lease/clock.ts";

/*
 * SQLite has no queue for its lock: every waiting process tries again and again, and one of them succeeds. Of 120 processes on two
 * cores most got no lock within 5 s, and their tries took CPU time from the process that had the lock.
 *
 * So they stand in a folder beside the file, one behind the other. Each listens on a socket there, whose name tells since when it
 * waits, and is connected to the one before it. That connection ends when the one before it has had its turn, or died.
 *
 * Safety does not rest on it: the lock is SQLite's. Two processes may both find themselves first, after a step of the clock, or where
 * a stopped one was passed over: they try as if there were no queue.
 */

/** The time of arrival, Unix ms, and something random. */
const placeName = /^\d{13}-[0-9a-f]{6}$/;
/** The longest path of a socket that every system allows, bytes. */
const longestPath = 103;
/** How long to wait from one look to the next for each of those before it, ms. */
const lookCost = 20;

/** Where a connection stands in the queue. */
export interface QueuePlace {
  /** Waits until no place is before this one: true; or for `patience` ms: false. */
  isFirst(patience: number): Promise<boolean>;
  /** Lets the next one have its turn. */
  leave(): void;
}

/** Where there can be no queue. */
const nowhere: QueuePlace = { isFirst: () => Promise.resolve(true), leave: () => undefined };

/** The queue for the lock of a registry's file. */
export class LockQueue {
  readonly #file: string;
  readonly #folder: string;

  constructor(file: string) {
    this.#file = file;
    this.#folder = `${file}-queue`;
  }

  /** Whether a process may be waiting. */
  get isThere(): boolean {
    return existsSync(this.#folder);
  }

  /** Takes the last place; the first one, where no socket can be made there. */
  async join(): Promise<QueuePlace> {
    // The last waiting process removes the folder, maybe between two of these steps.
    for (let tries = 0; tries < 3; tries++) {
      try {
        return await this.#newPlace();
      } catch {
        // An old system, a long path, a file in place of the folder: whatever it is, the lock can be had without a queue.
      }
    }
    return nowhere;
  }

  async #newPlace(): Promise<QueuePlace> {
    const name = `${Date.now()}-${randomBytes(3).toString("hex")}`;
    const path = join(this.#folder, name);
    if (Buffer.byteLength(path) > longestPath) return nowhere;
    this.#makeFolder();
    const server = createServer({ pauseOnConnect: true });
    server.unref().listen({ path, exclusive: true });
    await once(server, "listening");
    openAs(path, this.#file, 0o666);
    return new SocketPlace(this.#folder, name, server);
  }

  #makeFolder(): void {
    if (existsSync(this.#folder)) return;
    mkdirSync(this.#folder);
    openAs(this.#folder, dirname(this.#folder), 0o7777);
  }
}

class SocketPlace implements QueuePlace {
  readonly #folder: string;
  readonly #name: string;
  readonly #server: Server;
  /** Connections of those behind it. */
  readonly #behind = new Set<Socket>();
  /** Those before it that it waits for no more. */
  readonly #passed = new Set<string>();
  #ahead: { readonly name: string; readonly socket: Socket; readonly ended: AbortSignal } | undefined;

  constructor(folder: string, name: string, server: Server) {
    this.#folder = folder;
    this.#name = name;
    this.#server = server;
    server.on("error", () => undefined);
    server.on("connection", (socket) => {
      this.#behind.add(socket.unref());
      socket.on("error", () => undefined);
    });
  }

  async isFirst(patience: number): Promise<boolean> {
    for (;;) {
      const before = this.#before();
      if (before === undefined) return true;
      const ended = this.#follow(before.last);
      // All of them look now and then, and each look costs as much as the queue is long.
      await systemClock.sleep(Math.max(patience, before.count * lookCost), { signal: ended });
      if (ended.aborted) continue;
      // It was stopped, or has much to do: it takes part without a place.
      if (existsSync(join(this.#folder, before.first))) this.#pass(before.first);
      return false;
    }
  }

  leave(): void {
    this.#ahead?.socket.destroy();
    this.#ahead = undefined;
    // The name goes first; otherwise the next process takes this one for dead.
    this.#server.close();
    for (const socket of this.#behind) socket.destroy();
    try {
      rmdirSync(this.#folder);
    } catch {
      // Others are in it.
    }
  }

  /** The places before this one; undefined: none. */
  #before(): { readonly count: number; readonly first: string; readonly last: string } | undefined {
    let [count, first, last] = [0, this.#name, ""];
    for (const name of namesIn(this.#folder)) {
      if (name >= this.#name || this.#passed.has(name) || !placeName.test(name)) continue;
      count++;
      if (name < first) first = name;
      if (name > last) last = name;
    }
    return count === 0 ? undefined : { count, first, last };
  }

  /** Connects to another one. Aborted when that one is gone. */
  #follow(name: string): AbortSignal {
    if (this.#ahead?.name === name) return this.#ahead.ended;
    this.#ahead?.socket.destroy();
    const ended = new AbortController();
    const socket = connect(join(this.#folder, name)).unref().resume();
    this.#ahead = { name, socket, ended: ended.signal };
    socket.on("error", () => undefined);
    socket.on("close", () => {
      // What is left of its name was left by one that died.
      if (this.#ahead?.socket === socket) this.#pass(name);
      ended.abort();
    });
    return ended.signal;
  }

  #pass(name: string): void {
    this.#passed.add(name);
    try {
      rmSync(join(this.#folder, name), { force: true });
    } catch {
      // It is another user's.
    }
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Lets every user of the registry in: gives a path the group and the mode of another one. */
function openAs(path: string, like: string, mask: number): void {
  try {
    const { mode, gid } = statSync(like);
    const own = statSync(path);
    if (own.gid !== gid) chownSync(path, own.uid, gid);
    chmodSync(path, mode & mask);
  } catch {
    // Others cannot wait for this one, and try as if it were not there.
  }
}
