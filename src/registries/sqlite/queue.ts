import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { systemClock } from "../../clock.ts";
import { alignMode } from "./file-mode.ts";

/*
 * SQLite has no queue for its lock: every waiting process tries again and again. When 120 processes ran on two cores, most got no lock
 * within 5 s, and their tries took CPU time from the process that had the lock.
 *
 * So the waiting processes form a queue in a folder beside the file. Each process listens on a socket there, named by its time of arrival,
 * and is connected to the process before it. That connection ends when the process before it has had its turn, or died.
 *
 * Safety does not rest on the queue: the lock is SQLite's. After a step of the clock, or if others have passed a stopped process, two
 * processes may both be first. They then try as if there were no queue.
 */

/** The time of arrival, Unix ms, and a random part. */
const placeName = /^\d{13}-[0-9a-f]{6}$/;
/** The longest path of a socket that every system accepts, bytes. */
const longestPath = 103;
/** How long a place waits between two looks for each place before it, ms. A look reads every place, and every place looks. */
const lookCost = 20;

/** The place of a connection in the queue. */
export type QueuePlace = Pick<SocketPlace, "isFirst" | "leave">;

/** The place of a process that cannot have a queue. */
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

  /** Takes the last place. If no socket can be made there, it takes the first one. */
  async join(): Promise<QueuePlace> {
    // The last waiting process removes the folder, maybe between two of these steps.
    for (let tries = 0; tries < 3; tries++) {
      try {
        return await this.#newPlace();
      } catch {
        // An old system, a long path, or a file instead of the folder. A process can also get the lock without a queue.
      }
    }
    return nowhere;
  }

  async #newPlace(): Promise<QueuePlace> {
    const name = `${Date.now()}-${randomBytes(3).toString("hex")}`;
    const path = join(this.#folder, name);
    if (Buffer.byteLength(path) > longestPath) return nowhere;
    if (!existsSync(this.#folder)) {
      mkdirSync(this.#folder);
      alignMode(this.#folder, dirname(this.#folder), 0o7777);
    }
    const server = createServer({ pauseOnConnect: true });
    server.unref().listen({ path, exclusive: true });
    await once(server, "listening");
    alignMode(path, this.#file, 0o666);
    return new SocketPlace(this.#folder, name, server);
  }
}

class SocketPlace {
  readonly #folder: string;
  readonly #name: string;
  readonly #server: Server;
  /** The connections of the places after this one. */
  readonly #behind = new Set<Socket>();
  /** The places before it for which it no longer waits. */
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

  /** Waits until no place is before this one, and returns true. After `patience` ms it returns false. */
  async isFirst(patience: number): Promise<boolean> {
    for (;;) {
      const before = this.#before();
      const [first, last] = [before[0], before.at(-1)];
      if (first === undefined || last === undefined) return true;
      const ended = this.#follow(last);
      await systemClock.sleep(Math.max(patience, before.length * lookCost), { signal: ended });
      if (ended.aborted) continue;
      // The first process was stopped, or has much to do. It continues without a place.
      if (existsSync(join(this.#folder, first))) this.#pass(first);
      return false;
    }
  }

  /** Lets the next place have its turn. */
  leave(): void {
    this.#ahead?.socket.destroy();
    this.#ahead = undefined;
    // This removes the name before the connections. Otherwise the next process would assume that this one has died.
    this.#server.close();
    for (const socket of this.#behind) socket.destroy();
    try {
      rmdirSync(this.#folder);
    } catch {
      // The folder contains other places.
    }
  }

  /** The names of the places before this one, in their order. */
  #before(): readonly string[] {
    try {
      const names = readdirSync(this.#folder).filter((name) => name < this.#name && placeName.test(name));
      return names.filter((name) => !this.#passed.has(name)).toSorted();
    } catch {
      return [];
    }
  }

  /** Connects to another place. The signal aborts when that place is gone. */
  #follow(name: string): AbortSignal {
    if (this.#ahead?.name === name) return this.#ahead.ended;
    this.#ahead?.socket.destroy();
    const ended = new AbortController();
    const socket = connect(join(this.#folder, name)).unref().resume();
    this.#ahead = { name, socket, ended: ended.signal };
    socket.on("error", () => undefined);
    socket.on("close", () => {
      // If the name still exists, its process died.
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
      // The name belongs to another user.
    }
  }
}
