import { readFileSync } from "node:fs";
import type { Server, Socket } from "node:net";
import { Server as SecureServer } from "node:tls";
import type { Log } from "./log.ts";

export interface ConnectionLimits {
  /** Connections at once, on all addresses and sockets together. */
  readonly most: number;
  /** Connections of one address that have not sent a valid token yet. Default: any number. */
  readonly mostUnknown?: number | undefined;
}

/** Why a connection was ended: to make room, for lack of room, or because it sent too many requests ahead of the answers. */
const endReasons = ["idle", "full", "ahead"] as const;
export type EndReason = (typeof endReasons)[number];

/** The newest answer on a connection. */
interface LatestAnswer {
  /** Whether the kernel has taken the answer. Then the connection is idle. */
  readonly writableFinished: boolean;
}

interface ClientConnection {
  readonly address: string | undefined;
  /** The TLS socket, once the handshake is done. */
  socket: Socket;
  known: boolean;
  /** Whether it was opened above the limit. Then only health checks may use it. */
  readonly spare: boolean;
  /** The newest answer. Undefined before the first request. */
  answer: LatestAnswer | undefined;
  /** Number of the daemon's requests at its last request. */
  lastUse: number;
}

/** How many connections above the limit may ask for the daemon's health. */
const mostSpare = 32;
/** For how long each of these may stay open, ms. */
const spareTime = 5000;
/** To make room, 1 % of the idle connections end at once, at most this many, because a search goes through all connections. */
const mostEnded = 32;
/** Shortest time between two log lines about ended connections, ms. */
const logInterval = 10_000;
/** Open files of a daemon that are not clients: its files, connections to its registry, sockets that listen. */
const otherFiles = 128;
const usual = 10_000;

/** 10,000, or the process's limit of open files minus 128, if that is lower. At least 128. */
export function usualConnections(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Math.max(otherFiles, Math.min(usual, Number(soft ?? Infinity) - otherFiles));
  } catch {
    return usual;
  }
}

/**
 * The connections of a daemon. To make room for a new connection, idle ones are ended, first the ones without a token. If none is idle,
 * the new connection is ended. A few more connections may always ask for the daemon's health.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #log: Log;
  readonly #all = new Set<ClientConnection>();
  readonly #spare = new Set<ClientConnection>();
  readonly #bySocket = new WeakMap<Socket, ClientConnection>();
  /** Address and port of a client -> its connection, during the TLS handshake. */
  readonly #handshakes = new Map<string, ClientConnection>();
  readonly #unknown = new Map<string, number>();
  readonly #ended = new Map<EndReason, number>(endReasons.map((reason) => [reason, 0]));
  #uses = 0;
  #logged = -Infinity;
  #unlogged = 0;

  constructor(limits: ConnectionLimits, log: Log) {
    this.#limits = limits;
    this.#log = log;
  }

  get open(): number {
    return this.#all.size + this.#spare.size;
  }

  get most(): number {
    return this.#limits.most;
  }

  get ended(): ReadonlyMap<EndReason, number> {
    return this.#ended;
  }

  /** Counts the connections of a server, and ends those for which there is no room. */
  watch(server: Server): void {
    const isSecure = server instanceof SecureServer;
    server.on("connection", (socket: Socket) => this.#open(socket, isSecure));
    server.on("secureConnection", (socket: Socket) => {
      const key = keyOf(socket);
      const connection = this.#handshakes.get(key);
      if (connection === undefined) return;
      this.#handshakes.delete(key);
      connection.socket = socket;
      this.#bySocket.set(socket, connection);
    });
  }

  /** Notes a request and its answer. Returns whether there was room for the connection when it was opened. */
  use(socket: Socket, answer: LatestAnswer): boolean {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined) return true;
    connection.answer = answer;
    connection.lastUse = ++this.#uses;
    return !connection.spare;
  }

  know(socket: Socket): void {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined || connection.known) return;
    this.#countUnknown(connection, -1);
    connection.known = true;
  }

  end(socket: Socket, reason: EndReason): void {
    socket.destroy();
    this.#ended.set(reason, (this.#ended.get(reason) ?? 0) + 1);
    this.#unlogged++;
    const now = performance.now();
    if (now < this.#logged + logInterval) return;
    const facts = { event: "connections-ended", count: this.#unlogged, open: this.open, most: this.most };
    this.#log.warn({ ...facts, reason, address: socket.remoteAddress }, said[reason]);
    [this.#logged, this.#unlogged] = [now, 0];
  }

  #open(socket: Socket, isSecure: boolean): void {
    const address = socket.remoteAddress;
    const spare = !this.#hasRoom(address);
    if (spare && this.#spare.size >= mostSpare && !this.#makeRoom(this.#spare)) return this.end(socket, "full");
    const connection: ClientConnection = { address, socket, known: false, spare, answer: undefined, lastUse: 0 };
    this.#homeOf(connection).add(connection);
    this.#bySocket.set(socket, connection);
    this.#countUnknown(connection, 1);
    const key = isSecure ? keyOf(socket) : undefined;
    if (key !== undefined) this.#handshakes.set(key, connection);
    const late = spare ? setTimeout(() => socket.destroy(), spareTime).unref() : undefined;
    socket.once("close", () => {
      clearTimeout(late);
      this.#forget(connection);
      if (key !== undefined && this.#handshakes.get(key) === connection) this.#handshakes.delete(key);
    });
  }

  #hasRoom(address: string | undefined): boolean {
    const { most, mostUnknown = Infinity } = this.#limits;
    if (address !== undefined && (this.#unknown.get(address) ?? 0) >= mostUnknown) {
      const alike = [...this.#all].filter((connection) => !connection.known && connection.address === address);
      return this.#makeRoom(alike);
    }
    return this.#all.size < most || this.#makeRoom(this.#all);
  }

  /** Ends idle connections, first the ones without a token, then the least recently used ones. Returns whether any was idle. */
  #makeRoom(among: Iterable<ClientConnection>): boolean {
    const idle = [...among].filter(({ answer }) => answer === undefined || answer.writableFinished);
    idle.sort((a, b) => Number(a.known) - Number(b.known) || a.lastUse - b.lastUse);
    for (const connection of idle.slice(0, Math.ceil(Math.min(mostEnded, idle.length / 100)))) {
      this.#forget(connection);
      this.end(connection.socket, "idle");
    }
    return idle.length > 0;
  }

  #homeOf({ spare }: ClientConnection): Set<ClientConnection> {
    return spare ? this.#spare : this.#all;
  }

  #forget(connection: ClientConnection): void {
    if (this.#homeOf(connection).delete(connection) && !connection.known) this.#countUnknown(connection, -1);
  }

  #countUnknown({ address }: ClientConnection, by: 1 | -1): void {
    if (address === undefined) return;
    const count = (this.#unknown.get(address) ?? 0) + by;
    if (count === 0) this.#unknown.delete(address);
    else this.#unknown.set(address, count);
  }
}

/** Identifies a connection of a server, both before and after its TLS handshake. */
export function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

const said: Readonly<Record<EndReason, string>> = {
  idle: "all connections are in use; idle ones were ended to make room (raise `maxConnections`, or look at what holds them open)",
  full: "all connections are in use and none is idle; new ones were ended (raise `maxConnections`, or look at what holds them open)",
  ahead: "a connection sent too many requests ahead of the answers, and was ended",
};
