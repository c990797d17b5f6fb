import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { ServerAddress } from "../url.ts";
import { type Clock, monotonic } from "../../lease/clock.ts";
import { SnowleaseError } from "../../id/errors.ts";
import type { Tls } from "../url-parameters.ts";
import { codes, ConnectionLost, ReplyError } from "./errors.ts";
import type { Node, ZooKeeperSession } from "./session.ts";
import { within } from "../deadline.ts";

/*
 * node-zookeeper-client 1.1.3 and its faults. No other file knows this driver. What this file makes up for:
 *
 * - It does not report a refusal, waits forever for a silent server, and throws where no caller can catch it when a server answers
 *   garbage or an unknown error code. So this file wraps its reader; each connection and each exchange has a deadline; and a
 *   connection ends when it stays silent for most of the session timeout.
 * - It keeps calls while it is disconnected, and sends them later. So a client of the driver lives for one connection, and never
 *   connects again; the next client takes over the session.
 * - It numbers its requests until a number no longer fits, and fails from then on. So the numbers start again before that.
 * - In a transaction it takes the expected version 0 for "any version". So this file sets the version behind its back.
 * - Its timers and sockets keep the process alive. So they do that only while a caller waits for an answer.
 * - It has no TLS. So this file opens the socket.
 */

interface Stat {
  readonly version: number;
  readonly numChildren: number;
  /** Children created and deleted. */
  readonly cversion: number;
  /** 64 bits, big-endian. */
  readonly mtime: Buffer;
}

type Callback<Value extends readonly unknown[]> = (
  error: { code: number; message: string } | null,
  ...value: Value
) => void;

interface ClientTransaction {
  /** The operations that were added so far. */
  readonly ops: { version: number }[];
  create(path: string, data: Buffer | undefined, acl: object[], mode: number): void;
  setData(path: string, data: Buffer, version: number): void;
  remove(path: string, version: number): void;
  commit(callback: Callback<[results: readonly { readonly err?: number }[] | undefined]>): void;
}

/** The used part of the driver's internals: the version of the package is pinned. */
interface Manager {
  socket?: Socket;
  /** The number of the next request. */
  xid: number;
  /** The part of an answer that has arrived. */
  pendingBuffer?: Buffer | null;
  setState(state: number): void;
  connect(): void;
  onSocketConnected(): void;
  onSocketData(bytes: Buffer): void;
  onSocketDrain(): void;
  onSocketClosed(): void;
}

interface ZooKeeperClient {
  readonly connectionManager: Manager;
  close(): void;
  addAuthInfo(scheme: string, auth: Buffer): void;
  on(event: "state", listener: (state: { readonly name: string }) => void): void;
  getSessionId(): Buffer;
  getSessionPassword(): Buffer;
  getSessionTimeout(): number;
  getData(path: string, callback: Callback<[data: Buffer | undefined, stat: Stat]>): void;
  getChildren(path: string, callback: Callback<[names: string[]]>): void;
  exists(path: string, callback: Callback<[stat: Stat | null]>): void;
  setData(path: string, data: Buffer, version: number, callback: Callback<[stat: Stat]>): void;
  create(path: string, data: Buffer, acl: object[], mode: number, callback: Callback<[]>): void;
  remove(path: string, version: number, callback: Callback<[]>): void;
  transaction(): ClientTransaction;
}

export interface ZooKeeperDriver {
  createClient(servers: string, options: object): ZooKeeperClient;
  readonly ACL: { readonly OPEN_ACL_UNSAFE: object[]; readonly CREATOR_ALL_ACL: object[] };
  readonly CreateMode: { readonly PERSISTENT: number; readonly EPHEMERAL_SEQUENTIAL: number };
}

export type Server = ServerAddress["servers"][number];

/** A session that may outlive its connection. */
export interface SessionKey {
  readonly sessionId: Buffer;
  readonly sessionPassword: Buffer;
}

/** A state of the driver. */
const connecting = 1;
/** How long `close` waits for the end of a session, ms: it would end by itself. */
const politeEnd = 500;
/** Requests are numbered from 0 again after this one: a number has 31 bits. */
const lastRequest = 2 ** 30;
/** A longer answer ends the connection, bytes. A server's own limit is 1 MiB. */
const longestReply = 16_777_216;

/** One connection, and the client of the driver that lives as long as it. */
export class Wire {
  /** When the server last sent something, on the monotonic clock, ms. */
  heard: number;
  /** Whether the session has expired that this was to take over. */
  expired = false;
  /** Resolves with the reason when the connection ends. */
  readonly ended: Promise<Error>;
  readonly #client: ZooKeeperClient;
  readonly #driver: ZooKeeperDriver;
  readonly #acl: object[];
  readonly #opened: Promise<void>;
  readonly #watchdog: NodeJS.Timeout;
  #end: (error: Error) => void = () => undefined;
  #over = false;
  #isConnected = false;

  constructor(
    driver: ZooKeeperDriver,
    server: Server,
    options: Tls & { sessionTimeout: number; session: SessionKey | undefined; login: string | undefined; clock: Clock },
  ) {
    const { sessionTimeout, session, login, clock } = options;
    this.#driver = driver;
    this.#acl = login === undefined ? driver.ACL.OPEN_ACL_UNSAFE : driver.ACL.CREATOR_ALL_ACL;
    this.heard = monotonic(clock);
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#client = driver.createClient("server:1", { sessionTimeout, retries: 0, ...session });
    if (login !== undefined) this.#client.addAuthInfo("digest", Buffer.from(login));

    const manager = this.#client.connectionManager;
    const { onSocketData } = manager;
    manager.onSocketData = (bytes) => {
      this.heard = monotonic(clock);
      try {
        onSocketData.call(manager, bytes);
        if ((manager.pendingBuffer?.length ?? 0) > longestReply) throw new Error("an endless answer");
      } catch (error) {
        this.end(new Error(`it answers garbage: ${error instanceof Error ? error.message : String(error)}`));
      }
    };
    // The driver would connect again.
    manager.connect = () => this.end(new Error("the connection ended"));
    this.#opened = new Promise((resolve) => {
      this.#client.on("state", ({ name }) => {
        if (name === "SYNC_CONNECTED") {
          this.#isConnected = true;
          resolve();
        } else if (name === "EXPIRED") {
          this.expired = true;
          this.end(new Error("the session has expired"));
        } else if (name === "AUTH_FAILED") this.end(new ReplyError(codes.authFailed, "AUTH_FAILED"));
      });
    });
    this.#open(options.tls ? connectTls({ ...server, ca: options.tlsCa }) : connect(server), options.tls);
    this.#watchdog = setInterval(() => {
      if (this.#isConnected && monotonic(clock) - this.heard > (2 / 3) * this.#client.getSessionTimeout()) {
        this.end(new Error("it stays silent"));
      }
    }, sessionTimeout / 12).unref();
  }

  /** Connects as the driver does, with a socket of our own. */
  #open(socket: Socket, tls: boolean): void {
    const manager = this.#client.connectionManager;
    manager.setState(connecting);
    manager.socket = socket;
    socket.setNoDelay();
    socket.on(tls ? "secureConnect" : "connect", () => manager.onSocketConnected());
    socket.on("data", (bytes) => manager.onSocketData(bytes));
    socket.on("drain", () => manager.onSocketDrain());
    socket.on("error", (error) => this.end(error));
    socket.on("close", () => {
      manager.onSocketClosed();
      this.end(new Error("the connection ended"));
    });
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.#over;
  }

  get session(): SessionKey {
    return { sessionId: this.#client.getSessionId(), sessionPassword: this.#client.getSessionPassword() };
  }

  /** Resolves when calls can be made. Rejects where connecting fails, or takes longer than `patience`, ms. */
  async connected(patience: number): Promise<void> {
    const late = setTimeout(() => this.end(new Error("it stays silent")), patience).unref();
    const failed = this.ended.then((error): never => {
      throw error;
    });
    failed.catch(() => undefined);
    try {
      await Promise.race([this.#opened, failed]);
    } finally {
      clearTimeout(late);
    }
  }

  /** `held`: the connection keeps the process alive. */
  hold(held: boolean): void {
    const { socket } = this.#client.connectionManager;
    if (held) socket?.ref();
    else socket?.unref();
  }

  /** Closes it, also in the middle of a call. Repeatable; the first reason stays. */
  end(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#end(error);
    clearInterval(this.#watchdog);
    this.#client.connectionManager.socket?.destroy();
  }

  /** Closes it together with its session. */
  async close(): Promise<void> {
    if (this.isConnected) {
      this.#client.close();
      this.hold(true);
      await within(politeEnd, this.ended).catch(() => undefined);
    }
    this.end(new Error("this registry was closed"));
  }

  calls(id: number): ZooKeeperSession {
    const client = this.#client;
    const { connectionManager } = client;
    if (connectionManager.xid > lastRequest) connectionManager.xid = 0;
    const acl = this.#acl;
    const { PERSISTENT, EPHEMERAL_SEQUENTIAL } = this.#driver.CreateMode;
    const absent = { [codes.noNode]: undefined };
    const stat = (path: string): Promise<Stat | undefined> =>
      call<[Stat | null], Stat | undefined>(
        (done) => client.exists(path, done),
        (found) => found ?? undefined,
      );
    return {
      id,

      get: (path) =>
        call<[Buffer | undefined, Stat], Node | undefined>(
          (done) => client.getData(path, done),
          (data, { version }) => ({ data: data ?? Buffer.alloc(0), version }),
          absent,
        ),

      list: (path) =>
        call<[string[]], readonly string[] | undefined>(
          (done) => client.getChildren(path, done),
          (names) => names,
          absent,
        ),

      count: async (path) => (await stat(path))?.numChildren,

      async created(path) {
        const found = await stat(path);
        return found && (found.cversion + found.numChildren) / 2;
      },

      async removed(path) {
        const found = await stat(path);
        return found && (found.cversion - found.numChildren) / 2;
      },

      touch: (path) =>
        call<[Stat], number | undefined>(
          (done) => client.setData(path, Buffer.alloc(0), -1, done),
          ({ mtime }) => Number(mtime.readBigInt64BE()),
          absent,
        ),

      create: (path, data) =>
        call<[], "made" | "exists" | "orphan">(
          (done) => client.create(path, Buffer.from(data ?? []), acl, PERSISTENT, done),
          () => "made",
          { [codes.nodeExists]: "exists", [codes.noNode]: "orphan" },
        ),

      set: (path, data, version) =>
        call<[Stat], boolean>(
          (done) => client.setData(path, Buffer.from(data), version, done),
          () => true,
          { [codes.badVersion]: false, [codes.noNode]: false },
        ),

      remove: (path) =>
        call<[], boolean>(
          (done) => client.remove(path, -1, done),
          () => true,
          { [codes.noNode]: false, [codes.notEmpty]: false },
        ),

      commit(writes) {
        const transaction = client.transaction();
        for (const write of writes) {
          if (write.op === "create") {
            const data = Buffer.from(write.data ?? []);
            transaction.create(write.path, data, acl, write.ephemeral ? EPHEMERAL_SEQUENTIAL : PERSISTENT);
            continue;
          }
          const version = write.op === "remove" ? (write.version ?? -1) : write.version;
          if (write.op === "set") transaction.setData(write.path, Buffer.from(write.data), version);
          else transaction.remove(write.path, version);
          const added = transaction.ops.at(-1);
          if (added === undefined) throw new Error("node-zookeeper-client is not of the version that is needed");
          added.version = version;
        }
        return new Promise((resolve, reject) => {
          transaction.commit((error, results) => {
            const failed = results?.findIndex(({ err }) => err !== undefined && err !== 0) ?? -1;
            const code = results?.[failed]?.err;
            if (error === null || error === undefined) resolve(undefined);
            else if (code !== undefined && refusals.has(code)) resolve({ failed, code });
            else reject(failureOf(error));
          });
        });
      },
    };
  }
}

/** The codes for a write that did not find what it expected. */
const refusals: ReadonlySet<number> = new Set([codes.badVersion, codes.nodeExists, codes.noNode, codes.notEmpty]);

/** A call of the driver as a promise. `known`: what some of the server's codes stand for; other errors are thrown. */
async function call<Raw extends readonly unknown[], Value>(
  send: (done: Callback<Raw>) => void,
  read: (...raw: Raw) => Value,
  known: Readonly<Record<number, Value>> = {},
): Promise<Value> {
  const answer = await new Promise<{ readonly raw: Raw } | { readonly code: number }>((resolve, reject) => {
    send((error, ...raw) => {
      if (!error) resolve({ raw });
      else if (error.code in known) resolve(error);
      else reject(failureOf(error));
    });
  });
  return "raw" in answer ? read(...answer.raw) : (known[answer.code] as Value);
}

function failureOf({ code, message }: { code: number; message: string }): Error {
  if (code === codes.connectionLoss || code === codes.sessionExpired) return new ConnectionLost(message);
  return new ReplyError(code, message.replace(/^Exception: /, ""));
}

/** @throws SnowleaseError DRIVER_MISSING */
export async function loadDriver(): Promise<ZooKeeperDriver> {
  try {
    const module = (await import("node-zookeeper-client")) as unknown as { readonly default: ZooKeeperDriver };
    return module.default;
  } catch (cause) {
    throw new SnowleaseError(
      "DRIVER_MISSING",
      "A ZooKeeper registry needs a driver that is not installed: run `npm install node-zookeeper-client@1.1.3`.",
      {},
      { cause },
    );
  }
}
