import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type zookeeper from "node-zookeeper-client";
import type { ServerAddress } from "../url.ts";
import { monotonic, systemClock } from "../../clock.ts";
import type { ZooKeeperSettings } from "./settings.ts";
import { Unanswered } from "../engine/operate.ts";
import { codes, ReplyError } from "./errors.ts";
import type { Write, ZooKeeperSession } from "./session.ts";
import { within } from "../deadline.ts";
import { driverMissing } from "../driver-missing.ts";

/*
 * node-zookeeper-client 1.1.3 and its faults. No other file knows this driver. This file makes up for these:
 *
 * - It does not report a refusal, and waits forever for a silent server. If a server answers garbage or an unknown error code, it throws
 *   where no caller can catch the error. So this file wraps its reader; each connection and each exchange has a deadline; and a
 *   connection ends when it stays silent for most of the session timeout.
 * - It keeps calls while it is disconnected, and sends them later. So a client of the driver lives for one connection, and never
 *   connects again; the next client takes over the session.
 * - It numbers its requests until a number no longer fits, and fails from then on. So the numbers start again before that.
 * - In a transaction it takes the expected version 0 for "any version". So this file sets the version in the driver's own data.
 * - Its timers and sockets keep the process alive. So they do that only while a caller waits for an answer.
 * - It has no TLS. So this file opens the socket.
 */

/** The part of the driver's internals that this file uses. The version of the package is pinned. */
interface Manager {
  socket?: Socket;
  /** The number of the next request. */
  xid: number;
  /** The part of an answer that has arrived so far. */
  pendingBuffer?: Buffer | null;
  setState(state: number): void;
  connect(): void;
  onSocketConnected(): void;
  onSocketData(bytes: Buffer): void;
  onSocketDrain(): void;
  onSocketClosed(): void;
}

type Client = zookeeper.Client & { readonly connectionManager: Manager };
/** `ops`: the operations that were added so far. */
type DriverTransaction = zookeeper.Transaction & { readonly ops: { version: number }[] };

export type ZooKeeperDriver = typeof zookeeper & {
  readonly ACL: { readonly OPEN_ACL_UNSAFE: zookeeper.ACL[]; readonly CREATOR_ALL_ACL: zookeeper.ACL[] };
};

type Callback<Value extends readonly unknown[]> = (error: Error | zookeeper.Exception | null, ...value: Value) => void;

/** A session that may outlive its connection. */
export interface SessionKey {
  readonly sessionId: Buffer;
  readonly sessionPassword: Buffer;
}

/** A state of the driver. */
const connecting = 1;
/** How long `close` waits for the end of a session, ms. The session would also end by itself. */
const politeEnd = 500;
/** After this request, the numbers begin at 0 again. A number has 31 bits. */
const lastRequest = 2 ** 30;
/** Longest answer, bytes. A longer one ends the connection. A server's own limit is 1 MiB. */
const longestReply = 16_777_216;

const { noNode, nodeExists, badVersion, notEmpty } = codes;
/** The codes for a write that did not find what it expected. */
const refusals: ReadonlySet<number> = new Set([noNode, nodeExists, badVersion, notEmpty]);

/** One connection, with a client of the driver that lives as long as the connection. */
export class Wire {
  /** When the server last sent something, on the monotonic clock, ms. */
  heard: number;
  /** Whether the session that this connection was to take over has expired. */
  expired = false;
  /** Resolves with the reason when the connection ends. */
  readonly ended: Promise<Error>;
  readonly #client: Client;
  readonly #driver: ZooKeeperDriver;
  readonly #acl: zookeeper.ACL[];
  readonly #opened: Promise<void>;
  readonly #watchdog: NodeJS.Timeout;
  #end: (error: Error) => void = () => undefined;
  #over = false;
  #isConnected = false;

  constructor(
    driver: ZooKeeperDriver,
    server: ServerAddress["servers"][number],
    options: Omit<ZooKeeperSettings, "chroot"> & { session: SessionKey | undefined; login: string | undefined },
  ) {
    const { sessionTimeout, tls, ca, cert, key, session, login } = options;
    this.#driver = driver;
    this.#acl = login === undefined ? driver.ACL.OPEN_ACL_UNSAFE : driver.ACL.CREATOR_ALL_ACL;
    this.heard = monotonic(systemClock);
    this.ended = new Promise((resolve) => (this.#end = resolve));
    this.#client = driver.createClient("server:1", { sessionTimeout, retries: 0, ...session }) as Client;
    if (login !== undefined) this.#client.addAuthInfo("digest", Buffer.from(login));

    const manager = this.#client.connectionManager;
    const { onSocketData } = manager;
    manager.onSocketData = (bytes) => {
      this.heard = monotonic(systemClock);
      try {
        onSocketData.call(manager, bytes);
        if ((manager.pendingBuffer?.length ?? 0) > longestReply) throw new Error("an endless answer");
      } catch (error) {
        this.end(new Error(`it answers garbage: ${error instanceof Error ? error.message : String(error)}`));
      }
    };
    // Without this, the driver would connect again.
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
    this.#open(tls ? connectTls({ ...server, ca, cert, key, rejectUnauthorized: true }) : connect(server), tls);
    this.#watchdog = setInterval(() => {
      if (this.#isConnected && monotonic(systemClock) - this.heard > (2 / 3) * this.#client.getSessionTimeout()) {
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

  /** Resolves when calls can be made. Rejects if the connection fails, or takes longer than `patience`, ms. */
  async connected(patience: number): Promise<void> {
    const late = setTimeout(() => this.end(new Error("it stays silent")), patience).unref();
    const failed = await Promise.race([this.#opened, this.ended]);
    clearTimeout(late);
    if (failed !== undefined) throw failed;
  }

  /** `held`: the connection keeps the process alive. */
  hold(held: boolean): void {
    const { socket } = this.#client.connectionManager;
    if (held) socket?.ref();
    else socket?.unref();
  }

  /** Closes the connection, also during a call. May be called again; the first reason stays. */
  end(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#end(error);
    clearInterval(this.#watchdog);
    this.#client.connectionManager.socket?.destroy();
  }

  /** Closes the connection together with its session. */
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
    const { PERSISTENT } = this.#driver.CreateMode;
    return {
      id,

      async get(path) {
        const answer = await call<[Buffer | undefined, zookeeper.Stat]>((done) => client.getData(path, done), noNode);
        if (answer === undefined) return undefined;
        const [data = Buffer.alloc(0), { version, numChildren: children }] = answer;
        return { data, version, children };
      },

      async list(path) {
        const answer = await call<[string[]]>((done) => client.getChildren(path, done), noNode);
        return answer?.[0];
      },

      async count(path) {
        // A missing node is no error here.
        const [stat] = (await call<[zookeeper.Stat | null]>((done) => client.exists(path, done))) ?? [];
        if (!stat) return undefined;
        const { numChildren: present, cversion: changes } = stat;
        return { present, created: (changes + present) / 2 };
      },

      async touch(path) {
        const empty = Buffer.alloc(0);
        const answer = await call<[zookeeper.Stat]>((done) => client.setData(path, empty, -1, done), noNode);
        return answer && Number(answer[0].mtime.readBigInt64BE());
      },

      create: (path) =>
        succeeds((done) => client.create(path, Buffer.alloc(0), acl, PERSISTENT, done), nodeExists, noNode),

      remove: (path) => succeeds((done) => client.remove(path, -1, done), noNode, notEmpty),

      commit: (writes) => this.#commit(writes),
    };
  }

  #commit(writes: readonly Write[]): ReturnType<ZooKeeperSession["commit"]> {
    const { PERSISTENT, EPHEMERAL_SEQUENTIAL } = this.#driver.CreateMode;
    const transaction = this.#client.transaction() as DriverTransaction;
    for (const write of writes) {
      const { op, path } = write;
      if (op === "create") {
        const data = Buffer.from(write.data ?? []);
        transaction.create(path, data, this.#acl, write.ephemeral ? EPHEMERAL_SEQUENTIAL : PERSISTENT);
        continue;
      }
      const { version = -1 } = write;
      if (op === "set") transaction.setData(path, Buffer.from(write.data), version);
      else if (op === "check") transaction.check(path, version);
      else transaction.remove(path, version);
      const added = transaction.ops.at(-1);
      if (added === undefined) throw new Error("node-zookeeper-client is not of the version that is needed");
      added.version = version;
    }
    return new Promise((resolve, reject) => {
      transaction.commit((error, results: readonly { readonly err?: number; readonly path?: string }[] = []) => {
        const failed = results.findIndex(({ err }) => err !== undefined && err !== 0);
        const code = results[failed]?.err;
        if (!error) resolve({ made: results.map(({ path }) => path) });
        else if (code !== undefined && refusals.has(code)) resolve({ failed, code });
        else reject(failureOf(error));
      });
    });
  }
}

/** A call of the driver as a promise; undefined if the server answers with one of these codes. */
function call<Value extends readonly unknown[]>(
  send: (done: Callback<Value>) => void,
  ...known: readonly number[]
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    send((error, ...value) => {
      if (!error) resolve(value);
      else if ("code" in error && known.includes(error.code)) resolve(undefined);
      else reject(failureOf(error));
    });
  });
}

/** A write of the driver as a promise; false if the server answers with one of these codes. */
async function succeeds(send: (done: Callback<unknown[]>) => void, ...known: readonly number[]): Promise<boolean> {
  return (await call(send, ...known)) !== undefined;
}

function failureOf(error: Error | zookeeper.Exception): Error {
  const { code, message } = error as Error & { readonly code: number };
  if (code === codes.connectionLoss || code === codes.sessionExpired) return new Unanswered(message);
  return new ReplyError(code, message.replace(/^Exception: /, ""));
}

/** @throws SnowleaseError DRIVER_MISSING */
export async function loadDriver(): Promise<ZooKeeperDriver> {
  try {
    return (await import("node-zookeeper-client")).default as ZooKeeperDriver;
  } catch (cause) {
    throw driverMissing("ZooKeeper", "node-zookeeper-client@1.1.3", cause);
  }
}
